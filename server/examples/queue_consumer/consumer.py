"""A queue consumer whose messages take effect once, although the queue delivers them more than once.

The queue is a folder, so that nothing but Python is needed to try it: `inbox` holds messages, a consumer moves one to
`taken` while it works on it, and whoever runs the queue moves it back if it stays there for too long. Every real queue
promises the same: each message at least once.

    python3 consumer.py QUEUE_FOLDER

SAMEKEY is the admin listener (http://127.0.0.1:8788), SAMEKEY_TOKEN a token with the scope `claim`, PROVIDER where mails
and letters go.
"""

import json
import os
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path

SAMEKEY = os.environ.get("SAMEKEY", "http://127.0.0.1:8788")
TOKEN = os.environ["SAMEKEY_TOKEN"]
PROVIDER = os.environ["PROVIDER"]
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Stale(Exception):
    """The claim is not ours any more: what we still do counts no more."""


class Later(Exception):
    """Nothing can be said now: leave the message on the queue."""


def call(url, body, headers):
    """The status and the JSON of an answer, a refusal among them."""
    request = urllib.request.Request(url, json.dumps(body).encode(), headers | {"Content-Type": "application/json"})
    try:
        with OPENER.open(request, timeout=10) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as refusal:
        return refusal.code, json.loads(refusal.read())


def samekey(path, body, tries=5):
    """A call of the claim API. Each may be repeated: holder and claim_id say that it is the same one."""
    for attempt in range(tries):
        try:
            status, answer = call(SAMEKEY + path, body, {"Authorization": f"Bearer {TOKEN}"})
        except (OSError, ValueError):  # not reached, broken off, or no JSON
            status, answer = 503, {}
        if status < 500:
            return status, answer
        time.sleep(0.05 * 2**attempt)
    raise Later("samekey cannot be reached")


class Claim:
    """The right to handle a message, renewed in the background while it is held."""

    def __init__(self, answer):
        self.answer = answer
        self.path = f"/v1/claims/{answer['claim_id']}"
        self.stop = threading.Event()
        threading.Thread(target=self.beat, daemon=True).start()

    def beat(self):
        while not self.stop.wait(self.answer["heartbeat_every"]):
            try:
                if samekey(f"{self.path}/heartbeat", {})[0] == 409:
                    return
            except Later:
                pass

    def say(self, what, body):
        status, answer = samekey(f"{self.path}/{what}", body)
        if status == 409 and answer["code"] == "claim_stale":
            raise Stale(answer["detail"])
        if status >= 400:
            raise RuntimeError(f"{what}: {answer['code']}: {answer['detail']}")
        return answer


def send_mail(claim, message):
    """The provider of mails remembers its keys, so asking it twice sends one mail.

    Its key is the claim's own: the same on every attempt. The operation has `recovery = "rerun"`.
    """
    key = claim.answer["provider_key"]
    status, mail = call(f"{PROVIDER}/mails", message, {"Idempotency-Key": key})
    if status >= 500:
        raise OSError(f"the provider answers {status}")
    return claim.say("complete", {"status": 201, "result": mail, "result_id": mail["id"]})


def print_letter(claim, message):
    """The printer remembers nothing, so each call goes through the journal: made once, or nobody knows."""
    effect = claim.say("effects/print", {"input": message})
    if effect["state"] == "started":
        status, letter = call(f"{PROVIDER}/letters", message, {})
        if status >= 500:
            raise OSError(f"the printer answers {status}")
        effect = claim.say("effects/print/finish", {"result": letter})
    if effect["state"] == "unknown":
        return claim.say("uncertain", {"why": "the printer was called, and its answer is lost"})
    return claim.say("complete", {"status": 201, "result": effect["result"]})


WORK = {"invoice.send": send_mail, "letter.print": print_letter}


def handle(message):
    """What is to become of a message: `done`, `later`, or `dead` for a person to look at."""
    status, answer = samekey(
        "/v1/claims",
        {
            "actor": message["tenant"],
            "operation": message["operation"],
            "key": message["id"],
            "payload": message["body"],
            # A new name each time: only this run may repeat what it began.
            "holder": str(uuid.uuid4()),
            "wait": "0s",
        },
    )
    if status == 201:
        return work(Claim(answer), message)
    if status == 200 or answer.get("next") == "done":
        return "done"
    if answer.get("code") == "outcome_uncertain":
        # It runs again by itself where that was declared harmless; elsewhere somebody settles it.
        return "later" if message["operation"] == "invoice.send" else "dead"
    if answer.get("next") in ("wait", "retry_same_key"):
        return "later"
    print(f"{message['id']}: {answer.get('code')}: {answer.get('detail')}", file=sys.stderr)
    return "dead"


def work(claim, message):
    try:
        WORK[message["operation"]](claim, message["body"])
        return "done"
    except Stale:
        return "later"
    except (OSError, ValueError) as error:  # the provider's answer is lost: perhaps it did it
        try:
            claim.say("uncertain", {"why": str(error)[:500]})
        except Stale:
            pass
        return "later"
    finally:
        claim.stop.set()


def consume(folder):
    inbox, taken, dead = (Path(folder) / name for name in ("inbox", "taken", "dead"))
    while True:
        for name in sorted(os.listdir(inbox)):
            mine = taken / name
            try:
                os.rename(inbox / name, mine)
                os.utime(mine)
                message = json.loads(mine.read_text())
            except FileNotFoundError:  # another consumer was quicker, or the queue took it back
                continue
            try:
                outcome = handle(message)
            except Later as error:
                print(error, file=sys.stderr)
                outcome = "later"
            try:
                if outcome == "done":
                    os.unlink(mine)
                elif outcome == "dead":
                    os.rename(mine, dead / name)
            except FileNotFoundError:  # it was delivered to somebody else meanwhile, who finds it done
                pass
        time.sleep(0.05)


if __name__ == "__main__":
    consume(sys.argv[1])
