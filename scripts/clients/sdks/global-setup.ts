import { spawnSync } from "node:child_process";
import type { TestProject } from "vitest/node";
import startStack from "../../test/global-setup.ts";
import { installSdks } from "./packages.ts";

/** Installs the SDKs, checks the types of the code that uses them, and starts a stack unless GATEHOUSE_STACK names one. */
export default async function setup(project: TestProject): Promise<(() => Promise<void>) | undefined> {
  await installSdks();
  const compiler = "node_modules/typescript-7/bin/tsc";
  const { status } = spawnSync(process.execPath, [compiler, "-p", "scripts/clients/sdks"], { stdio: "inherit" });
  if (status !== 0) throw new Error("The suite's types are wrong.");
  return startStack(project);
}
