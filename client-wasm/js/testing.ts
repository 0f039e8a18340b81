// placeholder
export { memoryStore } from "./memory.js";
