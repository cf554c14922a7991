import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { freePort } from "@gatehousehq/local-stack/ports";
import { expect, test } from "vitest";
import { readStack } from "./test/stack.ts";

/**
 * The documented commands that start the web server, and the document of each. They run with the machine's own Node on
 * the PATH, as in a new terminal.
 */
const commands = [
  ["docs/deploying.md", "node_modules/.bin/node --env-file=production.env remix-app/server.ts"],
  ["docs/getting-started.md", "npm run serve"],
] as const;

const pathOfTerminal = (process.env.PATH ?? "")
  .split(path.delimiter)
  .filter((folder) => !folder.includes("node_modules"))
  .join(path.delimiter);

test.for(commands)("the web server starts as %s says: %s", async ([document, command]) => {
  expect(await readFile(document, "utf8")).toContain(command);
  const { supabase } = readStack();
  const port = String(await freePort());
  const settings = {
    NODE_ENV: "production",
    BASE_URL: `http://localhost:${port}`,
    PORT: port,
    SUPABASE_URL: supabase.url,
    SUPABASE_PUBLISHABLE_KEY: supabase.publishableKey,
    SUPABASE_SECRET_KEY: supabase.secretKey,
    AUTH_RECOVERY_HASH_SECRET: "a secret of tests, for what recovery mails carry",
  };
  const folder = await mkdtemp(path.join(tmpdir(), "gatehouse-start-"));
  const file = path.join(folder, "production.env");
  const takesFile = command.includes("production.env");
  await writeFile(
    file,
    Object.entries(settings)
      .map(([name, value]) => `${name}="${value}"\n`)
      .join(""),
  );
  // `exec` in the shell and a group of its own, so that the server and not only the shell or npm gets the signal.
  const child = spawn("sh", ["-c", `exec ${command.replace("production.env", file)}`], {
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
    env: {
      PATH: pathOfTerminal,
      HOME: process.env.HOME,
      ...(takesFile ? {} : settings),
    } as unknown as NodeJS.ProcessEnv,
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
  try {
    const health = () =>
      fetch(`http://127.0.0.1:${port}/healthz`).then(
        ({ status }) => status,
        () => output,
      );
    await expect.poll(health, { timeout: 25_000 }).toBe(200);
  } finally {
    if (child.pid && child.exitCode === null) {
      const exited = once(child, "exit");
      process.kill(-child.pid, "SIGTERM");
      await exited;
    }
    await rm(folder, { recursive: true });
  }
});
