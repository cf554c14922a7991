import { spawnSync } from "node:child_process";
import { randomInt } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import path from "node:path";
import { defaultPorts } from "@gatehousehq/local-stack/ports";
import { afterEach, beforeEach, expect, test } from "vitest";
import {
  eventually,
  newDataDir,
  processesOf,
  readDescription,
  type StackProcess,
  startRunner,
} from "./stack-process.ts";

const onlyMail = ["--without", "web,gateway,functions,provider,oidc,identity,postgres"];
const auto = ["--embedded", "--ports", "auto"];

let place: Awaited<ReturnType<typeof newDataDir>>;
const runners: StackProcess[] = [];

beforeEach(async () => {
  place = await newDataDir();
});
afterEach(async () => {
  for (const runner of runners.splice(0)) {
    runner.child.kill("SIGTERM");
    await runner.ended();
  }
  await place.remove();
});

function start(...[options, dataDir = place.dataDir]: [Parameters<typeof startRunner>[1]?, string?]): StackProcess {
  const runner = startRunner(dataDir, options);
  runners.push(runner);
  return runner;
}

function reset(dataDir: string) {
  return spawnSync(process.execPath, ["scripts/start/reset.ts", "--data-dir", dataDir], { encoding: "utf8" });
}

test("reports a taken port and its owner, and uses the next free port", async () => {
  // Takes a port outside the range for outgoing connections. Otherwise an outgoing connection could take the next port
  // before the service does.
  const offset = randomInt(6_700, 10_900);
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(defaultPorts.mail + offset, "127.0.0.1", resolve);
  });
  try {
    const runner = start({ args: ["--embedded", "--port-offset", String(offset), ...onlyMail] });
    const { mail } = await runner.ready();
    const taken = defaultPorts.mail + offset;
    expect(runner.said()).toMatch(
      new RegExp(`port ${taken} for mail is taken( by .+ \\(${process.pid}\\))?; using ${new URL(mail.web).port}`),
    );
    expect(new URL(mail.web).port).not.toBe(String(taken));
  } finally {
    server.close();
  }
});

test("--json prints only JSON on standard output, and stack.json is readable only by its owner", async () => {
  const runner = start({ args: [...auto, ...onlyMail] });
  expect(await runner.ready()).toEqual(readDescription(place.dataDir));
  expect(statSync(path.join(place.dataDir, "stack.json")).mode & 0o777).toBe(0o600);
  expect(statSync(path.join(place.dataDir, "secrets.json")).mode & 0o777).toBe(0o600);
});

test("while a start is running, a second start or a reset on the same data is refused with a message that names the first", async () => {
  const first = start({ args: [...auto, ...onlyMail] });
  const { base } = await first.ready();
  const second = start({ args: [...auto, ...onlyMail] });
  expect(await second.ended()).toBe(1);
  expect(second.said()).toContain(`process ${first.pid}, ${base}`);
  const refused = reset(place.dataDir);
  expect(refused.status).toBe(1);
  expect(refused.stderr).toContain(`process ${first.pid}, ${base}`);

  first.child.kill("SIGTERM");
  expect(await first.ended()).toBe(0);
  expect(reset(place.dataDir).status).toBe(0);
  expect(readdirSync(place.dataDir)).toEqual([]);
});

test("a service that keeps crashing stops the stack, and its last output is shown", async () => {
  const runner = start({ args: [...auto, ...onlyMail] });
  await runner.ready();
  const killed = new Set<number>();
  for (let death = 1; death <= 4; death += 1) {
    const pid = await eventually("a process to kill", () => {
      const now = readDescription(place.dataDir).services.find(({ name }) => name === "mail")?.pid;
      return now && !killed.has(now) ? now : undefined;
    });
    killed.add(pid);
    process.kill(pid, "SIGKILL");
  }
  expect(await runner.ended()).toBe(1);
  expect(runner.said()).toMatch(/mail (does not stay up|was ended by SIGKILL, and died 4 times in 60 s)/);
  expect(runner.said()).toContain(path.join(place.dataDir, "logs/mail.log"));
  expect(processesOf(place.dataDir, [...killed])).toEqual([]);
});

test.each([
  ["a file in its place", () => path.join(place.dataDir, "file"), "in the way"],
  [
    "a location that does not allow files",
    () => (existsSync("/proc/self") ? "/proc/gatehouse" : "/dev/null/gatehouse"),
    "",
  ],
])("reports a data directory that cannot be created: %s", async (_, dataDirOf, reason) => {
  writeFileSync(path.join(place.dataDir, "file"), "");
  const runner = start({ args: auto }, dataDirOf());
  expect(await runner.ended()).toBe(1);
  expect(runner.said().trim()).toMatch(/^The stack cannot keep its data in \S+: .*\n.*--data-dir <directory>$/);
  expect(runner.said()).toContain(dataDirOf());
  expect(runner.said()).toContain(reason);
});

test("reports a data directory without write permission, unless root starts the stack", async () => {
  const dataDir = path.join(place.dataDir, "closed");
  mkdirSync(dataDir);
  chmodSync(dataDir, 0o500);
  const runner = start({ args: [...auto, ...onlyMail] }, dataDir);
  if (process.getuid?.() === 0) {
    await runner.ready();
  } else {
    expect(await runner.ended()).toBe(1);
    expect(runner.said()).toContain(`${dataDir}: you may not write there`);
  }
  chmodSync(dataDir, 0o700);
});

test("the stack reports an incomplete environment in one message", async () => {
  const runner = start({
    args: ["--ports", "auto"],
    env: {
      BASE_URL: "",
      SUPABASE_URL: "https://abc.supabase.co",
      SUPABASE_PUBLISHABLE_KEY: "sb_publishable_a",
      SUPABASE_SECRET_KEY: "",
    },
  });
  expect(await runner.ended()).toBe(1);
  expect(runner.said().trim().split("\n")).toEqual([
    expect.stringMatching(/^The settings in .* do not work:$/),
    expect.stringMatching(/^ {2}SUPABASE_SECRET_KEY is not set, but SUPABASE_URL is: /),
  ]);
});

test("refuses --test-models on a project that the stack does not seed", async () => {
  const runner = start({
    args: ["--ports", "auto", "--test-models"],
    env: {
      BASE_URL: "",
      SUPABASE_URL: "https://abc.supabase.co",
      SUPABASE_PUBLISHABLE_KEY: "sb_publishable_a",
      SUPABASE_SECRET_KEY: "sb_secret_a",
    },
  });
  expect(await runner.ended()).toBe(1);
  expect(runner.said()).toContain("--test-models needs the embedded stack");
});

test("resumes an interrupted start, and reports damaged data without ever deleting it", async () => {
  const args = [...auto, "--without", "web,gateway,functions,provider,oidc,identity,mail"];
  const cluster = path.join(place.dataDir, "postgres");
  const secrets = path.join(place.dataDir, "secrets.json");
  const kept = path.join(cluster, "PG_VERSION");
  const refusal = async () => {
    const runner = start({ args });
    expect(await runner.ended()).toBe(1);
    expect(runner.said()).toContain("npm run reset");
    expect(existsSync(kept)).toBe(true);
    return runner.said();
  };

  mkdirSync(`${cluster}.new/base`, { recursive: true });
  writeFileSync(`${cluster}.new/PG_VERSION`, "17\n");
  const first = start({ args });
  await eventually("a new cluster", () => (/postgres +│ up/.test(first.said()) ? true : undefined));
  first.child.kill("SIGTERM");
  await first.ended();

  rmSync(path.join(cluster, "global/pg_control"));
  expect(await refusal()).toContain(`${cluster} is not a whole Postgres data directory.`);
  writeFileSync(secrets, "{");
  expect(await refusal()).toContain(`${secrets} is damaged`);
  rmSync(secrets);
  expect(await refusal()).toContain(`${secrets} is gone`);
});
