declare module "*.wasm" {
  /** What the bundler makes of it: bytes in Base64, or a module. */
  const wasm: unknown;
  export default wasm;
}
