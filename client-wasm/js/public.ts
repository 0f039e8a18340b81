// What every entry gives.
export { isSamekeyError, SamekeyError, unwrap } from "./errors.js";
export type * from "./types.js";
