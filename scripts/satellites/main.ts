import { spawn } from "node:child_process";
import { once } from "node:events";
import { startStack } from "../test/start-stack.ts";
import { satelliteApps } from "./apps.ts";
import { checkCommand, installApp, packPackage } from "./install.ts";

const usage = `npm test -- satellites [app …]

Packs @gatehousehq/cli and runs it where it is installed. Packs @gatehousehq/satellite, installs it in a fresh app of each framework below .local/satellite-apps/, with a fresh app
that signs in by OpenID Connect next to them, and signs in and out of each in a browser, against the stack that GATEHOUSE_STACK names or one of its own.

Apps: ${satelliteApps.map(({ name }) => name).join(", ")}`;

const names = process.argv.slice(2);
const unknown = names.filter((name) => !satelliteApps.some((app) => app.name === name));
if (unknown.length > 0) {
  console.error(unknown[0] === "--help" ? usage : `Unknown app: ${unknown.join(", ")}.\n\n${usage}`);
  process.exit(unknown[0] === "--help" ? 0 : 1);
}
const chosen = satelliteApps.filter(({ name }) => names.length === 0 || names.includes(name));

checkCommand(packPackage("cli"));
const tarball = packPackage("satellite");
for (const app of chosen) {
  console.log(`installing ${app.name} …`);
  installApp(app, { tarball });
}
const own = process.env.GATEHOUSE_STACK ? undefined : await startStack();
try {
  const env = {
    ...process.env,
    GATEHOUSE_STACK: own?.file ?? process.env.GATEHOUSE_STACK,
    SATELLITE_APPS: chosen.map(({ name }) => name).join(","),
  };
  const args = ["node_modules/playwright/cli.js", "test", "--project", "satellite apps"];
  const [code] = await once(spawn(process.execPath, args, { stdio: "inherit", env }), "exit");
  process.exitCode = code ?? 1;
} finally {
  await own?.stop();
}
