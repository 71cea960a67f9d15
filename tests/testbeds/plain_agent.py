"""An agent made from docs/agent-protocol.md alone: one job, then it ends. plain_agent.py HOST:PORT WORKDIR

The token comes in POTATO_TRAINING_TOKEN.
"""

import hashlib, http.client, io, json, os, pathlib, secrets, subprocess, sys, tarfile, time  # noqa: E401, I001

API = "/api/training"
lease, work = secrets.token_hex(16), pathlib.Path(sys.argv[2])
headers = {"Authorization": "Bearer " + os.environ["POTATO_TRAINING_TOKEN"], "Potato-Ray-Protocol": "1"}


def ask(method, path, body=None, **more):
    sent = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
    while True:  # whatever gets lost is sent again
        connection = http.client.HTTPConnection(sys.argv[1], timeout=60)
        try:
            connection.request(method, API + path, sent, {**headers, **more})
            answer = connection.getresponse()
            status, data = answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            status, data = 503, b""
        finally:
            connection.close()
        if status < 500 and status not in (408, 429):
            return status, data
        time.sleep(0.5)


def fetch(path, parcel, folder):
    _, data = ask("GET", path)
    assert hashlib.sha256(data).hexdigest() == parcel["sha256"]
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(folder, filter="data")


status = 204
while status == 204:
    wanted = {"lease": lease, "wait_s": 20, "agent": {"id": lease[:8], "host": "plain"}}
    status, data = ask("POST", "/jobs/claim", wanted)
job = json.loads(data)
headers.update({"Potato-Ray-Attempt": str(job["attempt"]), "Potato-Ray-Lease": lease})
here, there = work / "job", "/jobs/" + job["run_id"]
fetch("/code/" + job["code"]["sha256"], job["code"], work / "code")
fetch(there + "/bundle", job["bundle"], here / "bundle")
(here / "artifacts").mkdir()
(here / "spec.json").write_text(json.dumps(job["spec"]))
start = work / "code" / "potato_ray" / "job" / "start.py"
subprocess.run([sys.executable, str(start), "launcher", str(here)], check=True, timeout=60, stdout=2)
next_seq = 0
while True:
    (here / "lease").touch()
    ended, events = (here / "exit.json").exists(), here / "events.jsonl"
    lines = events.read_text().split("\n")[:-1] if events.exists() else []
    said = {
        "first_seq": next_seq,
        "events": [json.loads(each) for each in lines[next_seq:]],
        "alive": not ended,
    }
    status, data = ask("POST", there + "/progress", said)
    answer = json.loads(data)
    if status == 409 and answer["error_code"] == "stale_attempt":
        answer = {"cancel": True, "grace_seconds": job["grace_seconds"], "next_seq": next_seq}
    next_seq = answer["next_seq"]
    if answer.get("cancel") and not (here / "cancel.json").exists():
        (here / "cancel.json").write_text(
            json.dumps({"reason": "cancelled", "grace_s": answer["grace_seconds"]})
        )
    if ended and next_seq == len(lines):
        break
    time.sleep(0.2)
end = json.loads((here / "exit.json").read_text())
if end["code"] == 0:
    predictions = (here / "artifacts" / "predictions.jsonl").read_bytes()
    digest = hashlib.sha256(predictions).hexdigest()
    ask("PUT", there + "/predictions", predictions, **{"Potato-Ray-Sha256": digest})
result = {"exit": end, "next_seq": next_seq, "artifact_uri": "plain:" + str(here / "artifacts")}
status, data = ask("POST", there + "/result", result)
sys.stdout.write(f"{status} {end['code']}\n")
