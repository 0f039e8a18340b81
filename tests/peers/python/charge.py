"""python3 charge.py PORT RETRIES TIMEOUT_MS CALLS

CALLS: a JSON list of {amount, key?} or {raw: path, body, key?}, made one after the other, or {together: list}.
Prints a JSON list: what each call gave its caller.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import stripe

port, retries, timeout, text = sys.argv[1:]
stripe.enable_telemetry = False
client = stripe.StripeClient(
    "sk_test_x",
    base_addresses={"api": f"http://127.0.0.1:{port}"},
    max_network_retries=int(retries),
    http_client=stripe.RequestsClient(timeout=int(timeout) / 1000),
)


def call(one):
    options = {"idempotency_key": one["key"]} if one.get("key") else {}
    try:
        if "raw" in one:
            answer = client.raw_request("post", one["raw"], **one["body"], **options)
            made = json.loads(answer.body)
        else:
            charge = {"amount": one["amount"], "currency": "eur", "source": "tok_visa"}
            made = client.v1.charges.create(charge, options)
        return {"made": {"id": made["id"], "object": made["object"], "amount": made["amount"]}}
    except stripe.StripeError as error:
        raised = {"type": type(error).__name__, "code": error.code, "status": error.http_status, "message": str(error)}
        return {"raised": raised}


calls = json.loads(text)
if isinstance(calls, dict):
    with ThreadPoolExecutor(len(calls["together"])) as pool:
        results = list(pool.map(call, calls["together"]))
else:
    results = [call(one) for one in calls]
print(json.dumps(results))
