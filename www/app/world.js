// What may be wrong on this side: no network, and a clock that is off. Kept, so that a reload does not repair it.

const NAME = "demo.world";
const DAY = 86_400_000;
const real = Date.now.bind(Date);
const listeners = new Set();
let state = read();

function read() {
  try {
    return { offline: false, clock: false, ...JSON.parse(localStorage.getItem(NAME)) };
  } catch {
    return { offline: false, clock: false };
  }
}

/** The client asks `Date.now`, as every library does. */
Date.now = () => real() + skew();
export const now = real;
export const skew = () => (state.clock ? DAY : 0);
export const offline = () => state.offline;
export const world = () => state;
export const onWorld = (listener) => listeners.add(listener);

export function change(part) {
  state = { ...state, ...part };
  localStorage.setItem(NAME, JSON.stringify(state));
  tell();
}
function tell() {
  dispatchEvent(new Event(state.offline ? "offline" : "online"));
  for (const listener of listeners) listener();
}
// Other tabs stand in the same world.
addEventListener("storage", ({ key }) => {
  if (key !== NAME) return;
  state = read();
  tell();
});

/** `fetch` as it is in this world. */
export const send = (url, init) => (state.offline ? Promise.reject(new TypeError("offline, as asked for")) : fetch(url, init));
