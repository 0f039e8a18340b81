// Bundles the shell into dist/, writes the declarations, and says what each part weighs.
// `cargo xtask client` runs it after it has made wasm/.
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { deflateRawSync, gzipSync } from "node:zlib";
import { build, transform } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const at = (...path) => join(here, ...path);
// Gzip, in bytes. What a page pays for this package is a promise of its README; each limit stands a little above what is
// there, so that growth is seen in the commit that brings it. The aim is 25 kB and 21 kB: the engine has to shrink.
const LIMITS = { ".": 72_000, "./slim and its wasm": 71_500, "./slim": 9_000 };

/** Entries that stand on another entry import it; a second copy would be a second engine. */
const beside = (extension) => ({
  name: "beside",
  setup(esbuild) {
    esbuild.onResolve({ filter: /^\.\/index\.js$/ }, () => ({ path: `./index.${extension}`, external: true }));
  },
});
/** workerd compiles no bytes at run time; it takes modules that were there at deployment. */
const module = {
  name: "module",
  setup(esbuild) {
    esbuild.onResolve({ filter: /\.wasm$/ }, () => ({ path: "./samekey.wasm", external: true }));
  },
};

/** Deflated before it becomes Base64, which would hide from the network's compression what repeats in it. */
const packed = {
  name: "packed",
  setup(esbuild) {
    esbuild.onLoad({ filter: /\.wasm$/ }, ({ path }) => ({
      contents: deflateRawSync(readFileSync(path), { level: 9, memLevel: 9 }), loader: "base64",
    }));
  },
};

const bundle = (entry, output, options = {}) =>
  build({
    absWorkingDir: here, entryPoints: [`js/${entry}.ts`], outfile: output, bundle: true, minify: true, metafile: true,
    platform: "neutral", mainFields: ["module", "main"], target: "es2022", plugins: [packed],
    external: ["node:*"], legalComments: "none", charset: "utf8", logLevel: "warning", ...options,
  });

rmSync(at("dist"), { recursive: true, force: true });
mkdirSync(at("dist"));
cpSync(at("wasm/samekey.wasm"), at("dist/samekey.wasm"));
const whole = await bundle("index", "dist/index.js", { format: "esm" });
await bundle("index", "dist/index.cjs", { format: "cjs" });
await bundle("slim", "dist/slim.js", { format: "esm" });
await bundle("slim", "dist/slim.cjs", { format: "cjs" });
await bundle("workerd", "dist/workerd.js", { format: "esm", plugins: [module] });
for (const entry of ["sw", "node", "testing"]) {
  await bundle(entry, `dist/${entry}.js`, { format: "esm", plugins: [beside("js"), packed] });
  await bundle(entry, `dist/${entry}.cjs`, { format: "cjs", plugins: [beside("cjs"), packed] });
}
await bundle("sw", "dist/samekey.iife.js", { format: "iife", globalName: "samekey" });

// Declarations: those that an entry needs, in both spellings of an import.
execFileSync(process.execPath, [at("node_modules/typescript/bin/tsc"), "-p", at("tsconfig.json")], { stdio: "inherit" });
const written = new Set();
function declare(name) {
  if (written.has(name)) return;
  written.add(name);
  const text = readFileSync(at(`wasm/types/${name}.d.ts`), "utf8");
  writeFileSync(at(`dist/${name}.d.ts`), text);
  writeFileSync(at(`dist/${name}.d.cts`), text.replace(/(from |import\()"(\.\/[\w-]+)\.js"/g, '$1"$2.cjs"'));
  for (const [, other] of text.matchAll(/(?:from |import\()"\.\/([\w-]+)\.js"/g)) declare(other);
}
["index", "slim", "sw", "node", "testing"].forEach(declare);

const weigh = (bytes) => gzipSync(bytes, { level: 9 }).length;
const file = (name) => weigh(readFileSync(at("dist", name)));
const wasm = readFileSync(at("wasm/samekey.wasm"));
const inputs = Object.keys(Object.values(whole.metafile.outputs)[0].inputs);
// A part alone, minified: together they weigh less, because what repeats between them is paid once.
const part = async (keep) => {
  const texts = await Promise.all(inputs.filter(keep).map(async (name) => {
    const { code } = await transform(readFileSync(at(name), "utf8"), { minify: true, target: "es2022", loader: name.endsWith(".ts") ? "ts" : "js" });
    return code;
  }));
  return weigh(Buffer.from(texts.join("")));
};
const rows = [
  ["engine: samekey.wasm", weigh(wasm), `${wasm.length} raw`],
  ["engine inlined", weigh(Buffer.from(deflateRawSync(wasm, { level: 9 }).toString("base64"))), ""],
  ["glue of wasm-bindgen", await part((name) => name.startsWith("wasm/") && name.endsWith(".js")), ""],
  ["idb", await part((name) => name.includes("/idb/")), ""],
  ["shell", await part((name) => name.startsWith("js/")), ""],
  [".", file("index.js"), ""],
  ["./slim", file("slim.js"), ""],
  ["./slim and its wasm", file("slim.js") + weigh(wasm), ""],
  ["./sw, beside .", file("sw.js"), ""],
  ["./iife", file("samekey.iife.js"), ""],
];
let over = false;
for (const [name, bytes, note] of rows) {
  const limit = LIMITS[name];
  if (limit && bytes > limit) over = true;
  console.log(`${name.padEnd(28)} ${String(bytes).padStart(7)} B gzip  ${limit ? `of ${limit}` : note}`);
}
if (over) {
  console.error("the package is larger than it promises; see LIMITS in client-wasm/build.mjs");
  process.exit(1);
}
