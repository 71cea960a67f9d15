"""What the pages and the list of backends show of agents."""

from __future__ import annotations

import html
import re
import time
from typing import Any

import pytest
from fastapi.testclient import TestClient

from potato_ray.agent_tokens import digest_of
from potato_ray.registry.agents import AgentSeen
from potato_ray.registry.runs import NewRun
from potato_ray.registry.states import State
from potato_ray.server.agents_panel import SHOWN, waiting_words

API = "/admin/training/api"
LAB = {"lab": {"type": "agent", "description": "Under the desk", "queue_timeout_s": 3600}}
CARD = {"uuid": "GPU-1", "name": "NVIDIA A100", "total_mb": 40960, "free_mb": 39000}


@pytest.fixture
def lab(serve) -> Any:
    return serve(backends=LAB, backend="lab")


def seen(served: Any, *agents: AgentSeen) -> None:
    served.controller.write(served.controller.registry.put_agents_seen, agents)


def agent(**facts: Any) -> AgentSeen:
    known: dict[str, Any] = {"host": "ws1", "python": "3.8.18", "gpus": (CARD,), "last_seen": time.time()}
    return AgentSeen("lab", **{"agent_id": "a1", **known, **facts})


def register(served: Any) -> None:
    served.controller.write(served.controller.registry.put_token, "lab", digest_of("prt_x"))


def offered(served: Any) -> str:
    """A run that waits for an agent."""
    registry = served.controller.registry

    def make() -> str:
        new = NewRun("sklearn-text", ("sentiment",), ("nominal",), backend="lab")
        run = registry.create_run(new, queue_max=9, allow_queue=True, max_concurrent=1)
        return registry.transition(run.run_id, 0, State.OFFERED).run_id

    return served.controller.write(make)


def page(served: Any, path: str = "/admin/training", client: Any = None) -> str:
    answer = (client or served.client).get(path, headers={"Accept": "text/html"})
    assert answer.status_code == 200, answer.text
    return answer.text


def text(markup: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", markup)).split())


def section(markup: str, heading: str) -> str:
    start = markup.index(f'aria-labelledby="{heading}"')
    return markup[start : markup.index("</section>", start)]


# The list of backends ------------------------------------------------------------------------------


def backend(served: Any, name: str) -> dict[str, Any]:
    (found,) = (b for b in served.client.get(f"{API}/backends").json()["backends"] if b["name"] == name)
    return found


def test_a_backend_without_agents_says_so_in_the_same_members(lab) -> None:
    local = backend(lab, "local")
    assert (local["token"], local["agents"]) == (None, [])


def test_an_agent_backend_tells_whether_it_has_a_token(lab) -> None:
    assert backend(lab, "lab")["token"] == "none"
    register(lab)
    assert backend(lab, "lab")["token"] == "issued"


def test_agents_are_listed_with_the_last_seen_first(lab) -> None:
    seen(lab, agent(last_seen=time.time() - 900), agent(agent_id="a2", host="ws2", gpus=(), run_id="r7"))
    newer, older = backend(lab, "lab")["agents"]
    assert (newer["host"], newer["present"], newer["run_id"], newer["gpus"]) == ("ws2", True, "r7", [])
    assert (older["host"], older["present"], older["run_id"], older["gpus"]) == ("ws1", False, None, [CARD])


def test_the_list_tells_neither_a_token_nor_its_hash(lab) -> None:
    register(lab)
    seen(lab, agent())
    told = lab.client.get(f"{API}/backends").text
    assert digest_of("prt_x") not in told
    assert "prt_" not in told


def test_the_check_of_an_agent_backend_is_answered(lab) -> None:
    body = lab.client.post(f"{API}/backends/lab/check").json()
    assert (body["ok"], body["checks"][0]["message"]) == (False, "no token issued yet")
    register(lab)
    body = lab.client.post(f"{API}/backends/lab/check").json()
    assert body["ok"]
    assert "No agent is polling at present" in body["facts"]["warnings"][0]


# The Training page ---------------------------------------------------------------------------------


def test_a_project_without_agent_backends_has_no_section_for_them(serve) -> None:
    assert 'id="agents"' not in page(serve())


def test_the_menu_offers_an_agent_backend_with_its_description(lab) -> None:
    shown = page(lab)
    assert '<option value="lab" selected>lab (agent)</option>' in shown
    assert '<p data-of-backend="lab">Under the desk</p>' in shown


def test_without_an_agent_the_form_says_so_with_the_command_and_leads_to_the_rest(lab) -> None:
    form = section(page(lab), "start-heading")
    assert "No agent is polling at present. A run waits until one asks for it." in text(form)
    assert "<code>potato-ray training agent --server http://testserver --backend lab</code>" in form
    assert 'href="#agents"' in form


def test_the_section_says_how_to_get_a_token_and_how_to_start_an_agent(lab) -> None:
    agents = text(section(page(lab), "agents-heading"))
    assert "potato-ray training register lab config.yaml" in agents
    assert "potato-ray training agent --server http://testserver --backend lab" in agents
    assert "curl --fail -H @- -o agent.pyz http://testserver/api/training/agent.pyz" in agents
    assert "A run that no agent takes within 1 h 00 min fails." in agents


def test_with_a_token_nobody_is_told_to_register(lab) -> None:
    register(lab)
    assert "training register" not in text(section(page(lab), "agents-heading"))


def test_on_this_machine_alone_the_address_is_left_to_fill_in(lab) -> None:
    here = TestClient(lab.app, base_url="http://127.0.0.1:8123", headers=lab.client.headers)
    agents = text(section(page(lab, client=here), "agents-heading"))
    assert "--server http://<this-server>:8123 --backend lab" in agents
    assert "Put the server's address in place of <this-server>" in agents


def test_agents_are_in_a_table_with_what_they_have_and_do(lab) -> None:
    run_id = "20260301T093000-1f2e3d"
    seen(lab, agent(), agent(agent_id="a2", host="ws2", gpus=(), run_id=run_id))
    agents = section(page(lab), "agents-heading")
    assert "2 agents are polling; 1 waits for a run." in text(agents)
    assert "ws1 3.8.18 NVIDIA A100 (39000 of 40960 MB free) just now waiting for a run" in text(agents)
    assert f"ws2 3.8.18 no GPU just now busy with {run_id}" in text(agents)
    assert f'href="/admin/training/runs/{run_id}"' in agents
    assert "<details>" in agents


def test_an_agent_that_was_not_heard_of_is_gone(lab) -> None:
    seen(lab, agent(last_seen=time.time() - 300, run_id="r7"))
    agents = section(page(lab), "agents-heading")
    assert "No agent is polling at present." in text(agents)
    assert "5 min ago not heard of any more" in text(agents)
    assert '<tr role="row" class="gone">' in agents
    assert "<details open>" in agents


def test_an_agent_that_has_left_is_not_counted_on(lab) -> None:
    offered(lab)
    seen(lab, agent(has_left=True))
    shown = page(lab)
    assert "has left" in text(section(shown, "agents-heading"))
    assert "no agent is polling" in text(section(shown, "now-heading"))
    (waiting,) = lab.client.get(f"{API}/status").json()["queue"]
    assert waiting["n_agents"] == 0


def test_what_an_agent_says_of_itself_is_no_markup(lab) -> None:
    seen(lab, agent(host="<b>ws</b>", python="<i>", gpus=({"name": "<script>", "free_mb": "<u>"},)))
    agents = section(page(lab), "agents-heading")
    assert not re.search(r"<(b|i|u|script)>", agents)
    assert "&lt;b&gt;ws&lt;/b&gt;" in agents


def test_several_starts_in_one_workdir_are_one_agent_of_the_table(lab) -> None:
    now = time.time()
    seen(lab, *(agent(agent_id=f"a{n}", workdir="/w", last_seen=now - 300 * n) for n in range(4)))
    agents = section(page(lab), "agents-heading")
    assert agents.count('<th scope="row"') == 1
    assert "waiting for a run" in text(agents)


def test_of_many_agents_the_last_seen_are_shown(lab) -> None:
    now = time.time()
    seen(lab, *(agent(agent_id=f"a{n}", host=f"ws{n}", last_seen=now - n) for n in range(SHOWN + 5)))
    agents = section(page(lab), "agents-heading")
    assert agents.count('<th scope="row"') == SHOWN
    assert "5 more were seen before." in text(agents)


def test_a_waiting_run_says_how_long_it_has_waited_for_an_agent_and_what_to_do(lab) -> None:
    offered(lab)
    now = text(section(page(lab), "now-heading"))
    start = "potato-ray training agent --server http://testserver --backend lab"
    assert re.search(r"waiting for an agent .* on lab for \d s; no agent is polling\. On the training", now)
    assert start in now


def test_a_waiting_run_asks_for_no_agent_while_one_is_polling(lab) -> None:
    offered(lab)
    seen(lab, agent())
    now = text(section(page(lab), "now-heading"))
    assert "waiting for an agent" in now
    assert "no agent is polling" not in now


def test_a_waiting_run_without_a_free_slot_says_so_on_both_pages(lab) -> None:
    run_id, words = offered(lab), "waiting for a free slot (max_concurrent_runs is 1)"
    seen(lab, agent())
    lab.controller.write(lab.controller.registry.note_progress, run_id, 0, words, 0, 0)
    for shown in (page(lab), run_of(lab, run_id)):
        assert words in text(section(shown, "now-heading"))
        assert "waiting for an agent" not in text(section(shown, "now-heading"))
    (waiting,) = lab.client.get(f"{API}/status").json()["queue"]
    assert waiting["step"] == words


def test_how_long_a_run_has_waited_is_told_in_whole_units() -> None:
    assert waiting_words(None, 60.0) == ""
    told = [waiting_words(1, seconds) for seconds in (-3.0, 9.9, 204.6)]
    assert told == ["for 0 s", "for 9 s", "for 3 min 25 s"]
    assert waiting_words(0, 1.0) == "for 1 s; no agent is polling. On the training machine:"


def test_the_status_counts_the_agents_that_may_take_a_run(lab) -> None:
    offered(lab)

    def counted() -> int | None:
        (waiting,) = lab.client.get(f"{API}/status").json()["queue"]
        return waiting["n_agents"]

    assert counted() == 0
    seen(lab, agent(), agent(agent_id="a2", last_seen=time.time() - 300))
    assert counted() == 1


# The page of a run ---------------------------------------------------------------------------------


def run_of(served: Any, run_id: str) -> str:
    return page(served, f"/admin/training/runs/{run_id}")


def test_the_page_of_a_waiting_run_says_how_to_start_an_agent_while_there_is_none(lab) -> None:
    run_id = offered(lab)
    shown = run_of(lab, run_id)
    assert "waiting for an agent" in text(section(shown, "now-heading"))
    assert '<div class="notice warning" data-part="no-agent">' in shown
    assert "potato-ray training agent --server http://testserver --backend lab" in text(shown)
    seen(lab, agent())
    assert '<div class="notice warning" data-part="no-agent" hidden>' in run_of(lab, run_id)


def ended(served: Any, **facts: Any) -> str:
    run_id = offered(served)
    registry = served.controller.registry

    def end() -> None:
        registry.begin(run_id, None, 1)
        registry.transition(run_id, 1, State.RUNNING, host="ws1", device="cuda:0")
        for state in (State.EVALUATING, State.FINISHING):
            registry.transition(run_id, 1, state)
        registry.transition(run_id, 1, State.SUCCESS, **facts)

    served.controller.write(end)
    return run_id


def test_model_files_that_stayed_are_named_with_their_machine_and_folder(lab) -> None:
    run_id = ended(lab, artifact_uri="ws1:/home/ada/.cache/potato-training/jobs/r/artifacts")
    shown = text(run_of(lab, run_id))
    assert "Model files stay on ws1: /home/ada/.cache/potato-training/jobs/r/artifacts" in shown
    assert "success lab ws1 cuda:0 ended" in shown


def test_a_run_whose_files_are_here_says_nothing_of_another_machine(lab) -> None:
    assert "stay on" not in text(run_of(lab, ended(lab)))


def test_the_table_of_runs_names_the_agents_machine(lab) -> None:
    ended(lab)
    assert "lab · ws1 · cuda:0" in text(section(page(lab), "runs-heading"))
