import { once } from "node:events";
import { createServer, type Server } from "node:http";
import path from "node:path";
import { PassThrough } from "node:stream";
import { defaultPorts, type HeldPort, numbersOf, type PortName, type Ports } from "@gatehousehq/local-stack/ports";
import { createClient } from "@supabase/supabase-js";
import { decodeJwt } from "jose";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { StackDescription } from "../description.ts";
import { planEmbedded } from "../embedded.ts";
import { parseEnvironment, readEnvironment } from "../environment.ts";
import { readOptions } from "../options.ts";
import { createStack, openDataDir, type Stack } from "../stack.ts";
import { newDataDir, readDescription } from "./stack-process.ts";

const root = path.resolve(import.meta.dirname, "../../..");
let place: Awaited<ReturnType<typeof newDataDir>>;
let stack: Stack | undefined;
const thieves: Server[] = [];

beforeEach(async () => {
  place = await newDataDir();
});
afterEach(async () => {
  await stack?.stop();
  for (const thief of thieves.splice(0)) thief.close().closeAllConnections();
  await place.remove();
});

/** Takes a port reserved for a service, as another process could do just before the service starts. */
async function steal(held: HeldPort): Promise<void> {
  await held.handOver();
  // Answers every request with success, including health checks.
  const thief = createServer((_, answer) => answer.end("ok")).listen(held.port, "127.0.0.1");
  thieves.push(thief);
  await once(thief, "listening");
}

/** Starts these services. Each time the stack has chosen its ports, steals the port of the next service in `stolen`. */
async function startRobbed(services: readonly PortName[], stolen: readonly PortName[]) {
  const terminal = new PassThrough();
  const without = Object.keys(defaultPorts).filter((name) => !services.includes(name as PortName));
  const { all } = readEnvironment(root, { embedded: true });
  const start = {
    root,
    options: readOptions(["--ports", "auto", "--data-dir", place.dataDir, "--without", without.join(",")]),
    environment: parseEnvironment({
      ...all,
      LOCAL_BOT_CHALLENGE: services.includes("turnstile") ? "on" : "off",
      GOTRUE_PASSWORD_HASH_COST: "4",
    }),
    terminal,
    onGiveUp: (error: Error) => {
      throw error;
    },
  };
  const opened = await openDataDir(start);
  const { plan, onStop } = await planEmbedded(start, opened);
  const chosen: Ports[] = [];
  stack = createStack(start, opened, {
    async plan(held) {
      const next = stolen[chosen.length];
      chosen.push(numbersOf(held));
      if (next) await steal(held[next]);
      return plan(held);
    },
    onStop,
  });
  const description = await stack.start();
  if (!description) throw new Error("The stack was stopped.");
  expect(readDescription(place.dataDir)).toEqual(description);
  expect(chosen).toHaveLength(stolen.length + 1);
  const said = String(terminal.read());
  expect(said).not.toContain("reset");
  for (const [index, name] of stolen.entries()) {
    const port = chosen[index]?.[name];
    expect(chosen[index + 1]).toEqual({ ...chosen[index], [name]: expect.not.toBeOneOf([port]) });
    expect(said).toMatch(new RegExp(`port ${port} was taken before .* could listen; starting again with another`));
  }
  const ports = chosen.at(-1) as Ports;
  for (const { name, port } of description.services) expect(port).toBe(ports[name as PortName]);
  return { description, ports };
}

const portOf = (url: string) => Number(new URL(url).port);

test.each<[PortName, PortName[], (description: StackDescription) => string]>([
  ["mail", ["mail"], ({ mail }) => mail.web],
  ["smtp", ["mail"], ({ mail }) => mail.smtp],
  ["provider", ["provider"], ({ provider }) => provider],
  ["oidc", ["oidc"], ({ oidc }) => oidc],
  ["web", ["web", "notes"], ({ base }) => base],
  ["notes", ["web", "notes"], ({ satellites }) => satellites[0]?.url ?? ""],
])("stack.json names the next port if another process takes the port for %s", async (name, services, addressIn) => {
  const { description, ports } = await startRobbed(services, [name]);
  expect(portOf(addressIn(description))).toBe(ports[name]);
});

test.each<PortName>(["turnstile", "functions"])(
  "the stack starts even if another process takes the port for %s",
  async (name) => {
    const { description } = await startRobbed([name], [name]);
    expect(description.services.map((service) => service.name)).toEqual([name]);
  },
);

test("if other processes take the ports of Postgres, the identity server and the gateway, sign-in works on the new ports", async () => {
  const names = ["postgres", "identity", "gateway"] as const;
  const { description, ports } = await startRobbed(names, names);
  const { supabase, users } = description;
  expect([portOf(supabase.url), portOf(supabase.dbUrl)]).toEqual([ports.gateway, ports.postgres]);
  const { auth } = createClient(supabase.url, supabase.publishableKey, { auth: { persistSession: false } });
  const { data } = await auth.signInWithPassword({ email: users[0]?.email ?? "", password: users[0]?.password ?? "" });
  expect(decodeJwt(data.session?.access_token ?? "").iss).toBe(`${supabase.url}/auth/v1`);
});
