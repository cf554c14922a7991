import { registerHooks } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { installSdks, sdkPackages } from "./packages.ts";

/** Preloaded by `node --import`: installs the SDKs, and makes imports of them resolve below `.local/`. */
const root = path.resolve(import.meta.dirname, "../../..");
const parentURL = pathToFileURL(path.join(await installSdks(root), "package.json")).href;
registerHooks({
  resolve: (name, context, next) => next(name, Object.hasOwn(sdkPackages, name) ? { ...context, parentURL } : context),
});
