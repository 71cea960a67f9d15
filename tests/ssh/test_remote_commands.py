"""Bounded commands and long-lived channels on a real host."""

from __future__ import annotations

import hashlib
import tarfile
import threading
import time

import pytest

from potato_ray.ssh import Connection, SshFailed, SshTimeout
from potato_ray.ssh.script import MAX_COMMAND_BYTES

MEGABYTES_5 = bytes(range(256)) * 20480


def test_a_command_answers_with_its_output_its_errors_and_its_exit_code(connection: Connection) -> None:
    answer = connection.run("echo out; echo err >&2; exit 7", timeout_s=20)
    assert (answer.code, answer.out, answer.text, answer.err) == (7, b"out\n", "out\n", "err\n")


@pytest.mark.parametrize("printed", ["", "no end", "\\n\\n", "two\\nlines\\n"])
def test_output_comes_to_the_byte(connection: Connection, printed: str) -> None:
    answer = connection.run(f"printf '{printed}'", timeout_s=20)
    assert answer.out == printed.encode().decode("unicode_escape").encode()


@pytest.mark.parametrize("code", [0, 1, 126, 127, 255])
def test_every_exit_code_is_the_commands_own_255_among_them(connection: Connection, code: int) -> None:
    assert connection.run(f"exit {code}", timeout_s=20).code == code


def test_a_command_that_was_killed_is_no_failure_of_the_connection(connection: Connection) -> None:
    assert connection.run("exec /bin/sh -c 'kill -9 $$'", timeout_s=20).code == 137
    assert connection.is_alive


def test_a_script_with_a_mistake_in_it_answers_with_what_sh_says(connection: Connection) -> None:
    answer = connection.run("if", timeout_s=20)
    assert answer.code == 2
    assert "yntax error" in answer.err


def test_a_command_gets_its_input_to_the_byte_and_then_its_end(connection: Connection) -> None:
    answer = connection.run("sha256sum", input=MEGABYTES_5, timeout_s=60)
    assert answer.text.split()[0] == hashlib.sha256(MEGABYTES_5).hexdigest()


def test_without_input_a_command_sees_the_end_at_once(connection: Connection) -> None:
    assert connection.run("cat; echo end", timeout_s=20).out == b"end\n"


def test_a_command_that_does_not_read_its_input_is_no_failure(connection: Connection) -> None:
    assert connection.run("echo done", input=MEGABYTES_5, timeout_s=20).out == b"done\n"


def test_five_megabytes_in_and_five_out_at_once_do_not_stop_each_other(connection: Connection) -> None:
    # It sends all of its own before it reads a byte.
    answer = connection.run("head -c 5242880 /dev/zero; sha256sum >&2", input=MEGABYTES_5, timeout_s=60)
    assert len(answer.out) == 5242880
    assert answer.err.split()[0] == hashlib.sha256(MEGABYTES_5).hexdigest()


def test_much_on_stderr_holds_nothing_up(connection: Connection) -> None:
    answer = connection.run("head -c 5242880 /dev/zero >&2; echo end", timeout_s=60)
    assert answer.out == b"end\n"


def test_what_a_command_leaves_running_does_not_hold_up_its_answer(connection: Connection) -> None:
    began = time.monotonic()
    assert connection.run("sleep 30 & echo $!", timeout_s=20).code == 0
    assert time.monotonic() - began < 10


def test_what_a_command_detaches_lives_on(connection: Connection) -> None:
    answer = connection.run("setsid sleep 60 > /dev/null 2>&1 < /dev/null & echo $!", timeout_s=20)
    assert connection.run(f"kill {int(answer.text)} && echo lived", timeout_s=20).out == b"lived\n"


def test_a_command_that_never_answers_is_given_up(connection: Connection) -> None:
    with pytest.raises(SshTimeout, match=r"^ssh to gpubox failed: A command did not end within 5 s") as late:
        connection.run("sleep 60", timeout_s=5)
    assert late.value.code == "ssh_failed"
    assert connection.run("echo still here", timeout_s=20).out == b"still here\n"


def test_a_command_without_bound_is_stopped_at_a_limit(connection: Connection) -> None:
    with pytest.raises(SshFailed, match="A command printed too much"):
        connection.run("exec yes", timeout_s=60)


def test_a_long_script_is_handed_over_and_one_that_is_too_long_refused_here(connection: Connection) -> None:
    assert connection.run("#" + "x" * 20_000 + "\necho ran $#", timeout_s=20).out == b"ran 0\n"
    with pytest.raises(ValueError, match="a command of"):
        connection.run("#" + "x" * MAX_COMMAND_BYTES, timeout_s=20)


def test_several_threads_share_a_connection(connection: Connection) -> None:
    answers: list[bytes] = []
    threads = [
        threading.Thread(target=lambda n=n: answers.append(connection.run(f"echo {n}", timeout_s=60).out))
        for n in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [b"%d\n" % n for n in range(6)]


def test_a_channel_is_a_conversation(connection: Connection) -> None:
    with connection.start("echo ready; read -r name; echo hello $name; cat") as channel:
        channel.wait_for_sentinel(20)
        assert channel.read_line(20) == b"ready"
        channel.send(b"ada\nrest", 20)
        assert channel.read_line(20) == b"hello ada"
        assert channel.read(4, 20) == b"rest"
        assert channel.poll() is None
        channel.end_input()
        assert channel.read(1, 20) == b""
        assert channel.wait(20) == 0


def test_a_channel_takes_and_gives_five_megabytes_at_once(connection: Connection) -> None:
    with connection.start("head -c 5242880 /dev/zero; head -c 5242880 | sha256sum") as channel:
        channel.wait_for_sentinel(20)
        channel.send(MEGABYTES_5, 30)
        stream = channel.stream(stall_s=30)
        assert stream.read(5242880) == bytes(5242880)
        assert stream.read().split()[0].decode() == hashlib.sha256(MEGABYTES_5).hexdigest()


def test_a_channels_output_can_be_unpacked_as_it_comes(connection: Connection) -> None:
    with connection.start("cd /etc && tar cf - passwd") as channel:
        channel.wait_for_sentinel(20)
        with tarfile.open(fileobj=channel.stream(stall_s=20), mode="r|") as archive:
            assert [member.name for member in archive] == ["passwd"]


def test_a_channel_that_says_nothing_is_given_up_and_can_be_asked_again(connection: Connection) -> None:
    with connection.start("read -r x; echo late") as channel:
        channel.wait_for_sentinel(20)
        with pytest.raises(SshTimeout, match=r"It sent no line within 0\.2 s"):
            channel.read_line(0.2)
        with pytest.raises(SshTimeout, match=r"It sent nothing within 0\.2 s"):
            channel.read(1, 0.2)
        channel.send(b"go on\n", 20)
        assert channel.read_line(20) == b"late"
        assert channel.read_line(20) is None


def test_sending_to_one_that_does_not_read_is_given_up(connection: Connection) -> None:
    with connection.start("exec sleep 60") as channel:
        channel.wait_for_sentinel(20)
        with pytest.raises(SshTimeout, match="It took nothing of what was sent within 1 s"):
            channel.send(bytes(1 << 24), 1.0)


def test_sending_to_one_that_has_ended_says_what_it_said_last(connection: Connection) -> None:
    with connection.start("echo no memory >&2; exit 9") as channel:
        channel.wait_for_sentinel(20)
        channel.wait(20)
        with pytest.raises(SshFailed, match="The command ended there before its time") as ended:
            channel.send(bytes(1 << 24), 20)
    assert ended.value.evidence == "Exit code 9; last words: no memory"


def test_a_line_without_end_is_given_up(connection: Connection) -> None:
    with connection.start("exec cat /dev/zero") as channel:
        channel.wait_for_sentinel(20)
        with pytest.raises(SshFailed, match="It sent a line without end"):
            channel.read_line(60)


def test_closing_a_channel_ends_the_input_over_there(connection: Connection, tmp_path: object) -> None:
    channel = connection.start(f"cat > /dev/null; echo saw the end > {tmp_path}/end")
    channel.wait_for_sentinel(20)
    channel.close()
    answer = connection.run(
        f"for i in $(seq 100); do [ -s {tmp_path}/end ] && break; sleep 0.1; done; cat {tmp_path}/end",
        timeout_s=30,
    )
    assert answer.out == b"saw the end\n"


def test_a_closed_connection_says_so(connection: Connection) -> None:
    connection.close()
    assert not connection.is_alive
    with pytest.raises(SshFailed, match="The connection was ended on this machine"):
        connection.run("true", timeout_s=5)
