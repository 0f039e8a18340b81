// node charge.mjs PORT RETRIES TIMEOUT_MS CALLS
// CALLS: a JSON list of { amount, key? } or { raw: path, body, key? }, made one after the other, or { together: list }.
// Prints a JSON list: what each call gave its caller.
import Stripe from "stripe";

const [port, retries, timeout, text] = process.argv.slice(2);
const stripe = new Stripe("sk_test_x", {
  host: "127.0.0.1",
  port: Number(port),
  protocol: "http",
  maxNetworkRetries: Number(retries),
  timeout: Number(timeout),
  telemetry: false,
});

async function call({ amount, raw, body, key }) {
  const options = key ? { idempotencyKey: key } : {};
  try {
    const made = raw
      ? await stripe.rawRequest("POST", raw, body, options)
      : await stripe.charges.create({ amount, currency: "eur", source: "tok_visa" }, options);
    return { made: { id: made.id, object: made.object, amount: made.amount } };
  } catch (error) {
    const { type, code, statusCode, message } = error;
    return { raised: { type, code: code ?? null, status: statusCode ?? null, message } };
  }
}

const calls = JSON.parse(text);
const results = [];
if (calls.together) {
  results.push(...(await Promise.all(calls.together.map(call))));
} else {
  for (const one of calls) results.push(await call(one));
}
console.log(JSON.stringify(results));
