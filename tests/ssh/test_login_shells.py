"""Every login shell hands a script on unharmed, and no start-up file gets into what is read or sent."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sshd import SHELLS, Account, Accounts, Sshd

from potato_ray.ssh import Connection, Destination, SshFailed, SshTimeout

AWKWARD = r"""
X="it's" ; Y='a "quoted" \\ word!' ; export X
printf '%s|%s|%s\n' "$X" "$Y" "$(echo $((6*7)))"
cat <<'HERE'
$HOME `date` !! \n
HERE
echo to-stderr >&2
false 2>/dev/null || echo "$?"
cat
exit 5
"""
EXPECTED = b"""it's|a "quoted" \\\\ word!|42
$HOME `date` !! \\n
1
input 'with' "all" $of it!
"""


@pytest.fixture(scope="module")
def all_shells(accounts: Accounts) -> dict[str, Account]:
    return {shell: accounts.with_shell(shell) for shell in SHELLS}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_means_the_same_under_every_login_shell(
    shell: str, all_shells: dict[str, Account], sshd_with: Callable[..., Sshd]
) -> None:
    sshd_with([all_shells[shell]])
    with Connection.open(Destination("gpubox")) as connection:
        answer = connection.run(AWKWARD, input=EXPECTED.splitlines(keepends=True)[-1], timeout_s=30)
        assert (answer.code, answer.out, answer.err) == (5, EXPECTED, "to-stderr\n")
        assert connection.run("#" + "x" * 20_000 + "\necho ran", timeout_s=30).out == b"ran\n"
        missing = connection.run("python3.99 -c ''", timeout_s=30)
        assert missing.code == 127
        assert "not found" in missing.err
    left = {path.name for path in all_shells[shell].home.iterdir()}
    assert "1" not in left, "a C shell has taken 2>&1 for a file"


@pytest.fixture
def noisy(bash: Account, sshd_with: Callable[..., Sshd]) -> Callable[[str], None]:
    def write(lines: str) -> None:
        (bash.home / ".bashrc").write_text(lines)
        sshd_with([bash])

    return write


@pytest.mark.parametrize(
    "noise",
    [
        "echo Welcome to the lab",
        "printf 'no end of line'",
        "echo to stderr >&2; echo $USER",
        "head -c 2000000 /dev/zero; head -c 2000000 /dev/zero >&2",
        "(sleep 3; echo later) &",
        "cd /tmp; set -u; alias echo=false; export LANG=xx",
    ],
)
def test_what_a_start_up_file_prints_is_not_the_answer(noisy: Callable[[str], None], noise: str) -> None:
    noisy(noise)
    with Connection.open(Destination("gpubox")) as connection:
        answer = connection.run("echo answer; echo error >&2", timeout_s=30)
        assert (answer.out, answer.err) == (b"answer\n", "error\n")
        with connection.start("echo line") as channel:
            channel.wait_for_sentinel(30)
            assert channel.read_line(30) == b"line"


def test_a_banner_and_the_file_that_sshd_runs_itself_are_not_the_answer(
    bash: Account, sshd_with: Callable[..., Sshd]
) -> None:
    (bash.home / "banner").write_text("Permission denied to all but members of the lab\n")
    (bash.home / ".ssh").mkdir(exist_ok=True)
    (bash.home / ".ssh" / "rc").write_text("echo from rc\n")
    sshd = sshd_with([bash], extra=f"Banner {bash.home}/banner\n")
    with Connection.open(Destination("gpubox")) as connection:
        answer = connection.run("echo answer", timeout_s=30)
        assert (answer.out, answer.err) == (b"answer\n", "")
    lost = connection.lost()
    assert lost is not None
    assert lost.message == "ssh to gpubox failed: The connection was ended on this machine"
    sshd.rewrite("AuthorizedKeysFile ", "AuthorizedKeysFile none # ")
    with pytest.raises(SshFailed, match="failed: Permission denied") as failure:
        Connection.open(Destination("gpubox"))
    assert failure.value.evidence.endswith("Permission denied (publickey).")
    (bash.home / ".ssh" / "rc").unlink()


@pytest.mark.parametrize("eater", ["read x", "read x; read y", "head -n 1 > /dev/null"])
def test_a_start_up_file_that_reads_does_not_get_what_is_sent(
    noisy: Callable[[str], None], eater: str
) -> None:
    noisy(f"{eater}; echo I ate $x $y")
    with Connection.open(Destination("gpubox")) as connection:
        assert connection.run("cat", input=b"secret\n", timeout_s=30).out == b"secret\n"
        with connection.start("read -r x; echo got $x; cat") as channel:
            channel.wait_for_sentinel(30)
            channel.send(b"token\n\n rest\n", 20)
            channel.end_input()
            assert channel.stream(20).read() == b"got token\n\n rest\n"


def test_a_start_up_file_that_reads_all_there_is_ends_in_a_deadline(noisy: Callable[[str], None]) -> None:
    noisy("echo waiting for you; cat > /dev/null")
    with Connection.open(Destination("gpubox")) as connection, connection.start("echo line") as channel:
        with pytest.raises(SshTimeout, match="It did not begin the command within 6 s") as late:
            channel.wait_for_sentinel(6)
        assert "waiting for you" in late.value.evidence


@pytest.mark.parametrize("ending", ["exec /bin/sh", "exit 0", "exec /bin/true"])
def test_a_start_up_file_that_never_comes_to_the_command_is_named(
    noisy: Callable[[str], None], ending: str
) -> None:
    noisy(ending)
    with Connection.open(Destination("gpubox")) as connection:
        with pytest.raises(
            SshFailed, match=r"^ssh to gpubox failed: The command was not run there"
        ) as failure:
            connection.run("echo answer", timeout_s=30)
        assert "exit code 0" in failure.value.evidence
        assert ".bashrc" in failure.value.next_step


def test_a_forced_command_is_named_with_what_it_printed(sshd_with: Callable[..., Sshd]) -> None:
    sshd_with(extra='ForceCommand echo "forced: $SSH_ORIGINAL_COMMAND" | cut -c 1-20\n')
    with Connection.open(Destination("gpubox")) as connection:
        with pytest.raises(SshFailed, match="The command was not run there") as failure:
            connection.run("echo hi", timeout_s=30)
        assert failure.value.evidence.startswith("Instead came: forced: exec /bin/sh")
        assert "ForceCommand" in failure.value.next_step


@pytest.mark.parametrize("shell", ["nologin", "false"])
def test_an_account_that_may_run_nothing_is_named(
    shell: str, accounts: Accounts, sshd_with: Callable[..., Sshd]
) -> None:
    sshd_with([accounts.with_shell(shell)])
    with Connection.open(Destination("gpubox")) as connection, pytest.raises(SshFailed) as failure:
        connection.run("echo hi", timeout_s=30)
    expected = (
        "The account may log in but may run nothing"
        if shell == "nologin"
        else "The command was not run there"
    )
    assert failure.value.message == f"ssh to gpubox failed: {expected}"
    assert ("nologin" if shell == "nologin" else "exit code 1") in str(failure.value)


def test_the_path_of_a_command_is_the_hosts_own_and_has_no_terminal(connection: Connection) -> None:
    answer = connection.run('echo "$PATH"; [ -t 0 ] || echo no terminal; echo "[$TERM]"', timeout_s=20)
    path, terminal, term = answer.text.splitlines()
    assert "/usr/bin" in path
    assert (terminal, term) == ("no terminal", "[]")
