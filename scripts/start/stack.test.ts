import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { PassThrough } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import type { HeldPort, HeldPorts } from "@gatehousehq/local-stack/ports";
import { createLog } from "@gatehousehq/local-stack/runner/log";
import { liveRun, takeDataDir } from "@gatehousehq/local-stack/runner/run-record";
import { limits, type Service, type Step } from "@gatehousehq/local-stack/runner/service";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { StackDescription } from "./description.ts";
import { parseEnvironment } from "./environment.ts";
import { readOptions } from "./options.ts";
import { createStack, type Planner, type Stack } from "./stack.ts";

const hint = "If its data is damaged, start afresh: npm run reset";
let dataDir: string;
let terminal: PassThrough;
let stack: Stack | undefined;
const errors: Error[] = [];
const thieves: Server[] = [];

beforeEach(() => {
  dataDir = mkdtempSync(path.join(tmpdir(), "gatehouse-stack-"));
  terminal = new PassThrough();
  errors.length = 0;
});
afterEach(async () => {
  await stack?.stop();
  for (const thief of thieves.splice(0)) thief.close().closeAllConnections();
  rmSync(dataDir, { recursive: true, force: true });
});

const said = () => String(terminal.read() ?? "");

async function newStack(plan: Planner["plan"]): Promise<Stack> {
  stack = createStack(
    {
      options: readOptions(["--ports", "auto"]),
      environment: parseEnvironment({}),
      onGiveUp: (error) => errors.push(error),
    },
    {
      dataDir,
      log: createLog({ directory: path.join(dataDir, "logs"), terminal, verbose: false }),
      record: await takeDataDir({ dataDir, onLeftover: () => {} }),
    },
    { plan, onStop: () => {} },
  );
  return stack;
}

/** Starts listening after a delay, and answers with the value of the environment variable TOLD. */
const program = `setTimeout(() => require("node:http").createServer((_, answer) => answer.end(process.env.TOLD))
  .listen(Number(process.env.PORT), "127.0.0.1"), Number(process.env.DELAY_MS));`;

function service(name: string, port: HeldPort, changes: Partial<Service> & { told?: string } = {}): Service {
  const { told = "", ...others } = changes;
  return {
    kind: "service",
    name,
    command: process.execPath,
    args: ["-e", program],
    env: { PORT: String(port.port), TOLD: told, DELAY_MS: "0" },
    cwd: dataDir,
    ports: [port],
    dependsOn: [],
    health: { url: addressOf(port) },
    hint,
    ...limits,
    ...others,
  };
}

const addressOf = ({ port }: HeldPort) => `http://127.0.0.1:${port}`;
const askOnce = async (url: string) => (await fetch(url)).text();
const readFileOf = () => JSON.parse(readFileSync(path.join(dataDir, "stack.json"), "utf8")) as StackDescription;

/** A service with Postgres's port, and a second service that gets the address of the first. */
const steps = (held: HeldPorts): Step[] => [
  service("store", held.postgres),
  service("front", held.web, { dependsOn: ["store"], told: addressOf(held.postgres) }),
];

const planOf = (held: HeldPorts, planned = steps(held)) => ({
  steps: planned,
  url: addressOf(held.web),
  describe: (services: StackDescription["services"]) => ({ base: addressOf(held.web), services }) as StackDescription,
});

/**
 * Takes a port reserved for a service, to simulate another process that takes the port just before the service starts.
 */
async function steal(held: HeldPort): Promise<void> {
  await held.handOver();
  await listenOn(held.port);
}

/** Accepts every request, including health checks. */
async function listenOn(port: number): Promise<void> {
  const thief = createServer((_, answer) => answer.end("from another process")).listen(port, "127.0.0.1");
  thieves.push(thief);
  await once(thief, "listening");
}

test.each(["postgres", "web"] as const)(
  "a service that loses its port (%s) before it listens gets another port, and all other services get the new address",
  async (name) => {
    const plans: HeldPorts[] = [];
    const { start } = await newStack(async (held) => {
      plans.push(held);
      if (plans.length === 1) await steal(held[name]);
      return planOf(held);
    });
    const description = await start();
    const [first, second] = plans;
    expect(plans).toHaveLength(2);
    const other = name === "web" ? "postgres" : "web";
    expect(second?.[name].port).not.toBe(first?.[name].port);
    expect(second?.[other].port).toBe(first?.[other].port);
    if (!second || !description) throw new Error("There was no second start.");

    expect(readFileOf()).toEqual(description);
    expect(description).toMatchObject({
      base: addressOf(second.web),
      services: [
        { name: "store", port: second.postgres.port },
        { name: "front", port: second.web.port },
      ],
    });
    expect(liveRun(dataDir)?.url).toBe(description.base);
    expect(await askOnce(description.base)).toBe(addressOf(second.postgres));
    const lost = first?.[name].port;
    const spoken = said();
    expect(spoken).toMatch(new RegExp(`port ${lost} was taken before .* could listen; starting again with another`));
    expect(spoken).toContain(`port ${lost} for ${name} is taken`);
    expect(spoken).not.toContain("reset");
    expect(errors).toEqual([]);
  },
);

test("if another process takes a service's second port, the stack chooses a new port", async () => {
  const both = `for (const port of [process.env.PORT, process.env.OTHER])
    require("node:http").createServer((_, answer) => answer.end()).listen(Number(port), "127.0.0.1");`;
  const chosen: number[] = [];
  const { start } = await newStack(async (held) => {
    chosen.push(held.smtp.port);
    if (chosen.length === 1) await steal(held.smtp);
    const env = { PORT: String(held.mail.port), OTHER: String(held.smtp.port) };
    const mail = service("mail", held.mail, { args: ["-e", both], env, ports: [held.mail, held.smtp] });
    return planOf(held, [mail]);
  });
  await start();
  expect(chosen).toHaveLength(2);
  expect(await askOnce(`http://127.0.0.1:${chosen[0]}`)).toBe("from another process");
  expect(await askOnce(`http://127.0.0.1:${chosen[1]}`)).toBe("");
});

test("if a service loses its port, startup tasks that are already running finish before the stack starts again", async () => {
  const events: string[] = [];
  const { start } = await newStack(async (held) => {
    events.push("plan");
    if (events.length === 1) await steal(held.postgres);
    const slow: Step = {
      kind: "task",
      name: "slow",
      dependsOn: [],
      run: async () => {
        await sleep(250);
        events.push("task ended");
      },
    };
    return planOf(held, [slow, ...steps(held)]);
  });
  await start();
  expect(events).toEqual(["plan", "task ended", "plan", "task ended"]);
});

test("a running service that crashes and loses its port gets another port, which is written to stack.json", async () => {
  const plans: HeldPorts[] = [];
  const { start } = await newStack(async (held) => {
    plans.push(held);
    const [store, ...others] = steps(held) as Service[];
    if (!store) throw new Error("There is no store.");
    // The restart takes long enough for another process to take the port first.
    return planOf(held, [{ ...store, env: { ...store.env, DELAY_MS: plans.length > 1 ? "0" : "400" } }, ...others]);
  });
  const before = await start();
  const store = before?.services.find(({ name }) => name === "store");
  process.kill(store?.pid ?? 0, "SIGKILL");
  await vi.waitFor(() => listenOn(store?.port ?? 0));
  const after = await vi.waitFor(
    () => {
      const now = readFileOf();
      expect(now.services).toHaveLength(2);
      expect(now.services).not.toContainEqual(expect.objectContaining({ port: store?.port }));
      return now;
    },
    { timeout: 10_000, interval: 50 },
  );
  expect(plans).toHaveLength(2);
  expect(after.base).toBe(before?.base);
  expect(await askOnce(after.base)).toBe(addressOf(plans[1]?.postgres as HeldPort));
  const spoken = said();
  expect(spoken).toContain(`ready again on ${after.base}; ${dataDir}/stack.json has all addresses`);
  expect(spoken).not.toContain("reset");
  expect(errors).toEqual([]);
});

test("the stack fails with a suggestion if a service crashes without losing its port", async () => {
  let plans = 0;
  const { start } = await newStack(async (held) => {
    plans += 1;
    return planOf(held, [service("store", held.postgres, { args: ["-e", "throw new Error('no data')"] })]);
  });
  await expect(start()).rejects.toThrow(new RegExp(`store does not stay up[^]*no data[^]*${hint}`));
  expect(plans).toBe(1);
});

test("stopping the stack while it restarts ends the stack and deletes stack.json", async () => {
  let plans = 0;
  const begun = await newStack(async (held) => {
    plans += 1;
    if (plans === 1) await steal(held.postgres);
    else setTimeout(() => void begun.stop(), 100);
    const [store, ...others] = steps(held) as Service[];
    if (!store) throw new Error("There is no store.");
    return planOf(held, [{ ...store, env: { ...store.env, DELAY_MS: "400" } }, ...others]);
  });
  expect(await begun.start()).toBeUndefined();
  await begun.stop();
  expect(plans).toBe(2);
  expect(existsSync(path.join(dataDir, "stack.json"))).toBe(false);
  expect(liveRun(dataDir)).toBeUndefined();
});
