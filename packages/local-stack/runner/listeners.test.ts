import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { connect, createServer, type Server } from "node:net";
import { afterEach, expect, test } from "vitest";
import { holdFreePort } from "../ports.ts";
import { groupListens, portOwner } from "./listeners.ts";

const procTells = process.platform === "linux";
const servers: Server[] = [];
const children: ChildProcess[] = [];
afterEach(async () => {
  for (const { pid } of children.splice(0)) if (pid) process.kill(-pid, "SIGKILL");
  await Promise.all(servers.splice(0).map((server) => new Promise((resolve) => server.close(resolve))));
});

async function listen(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  servers.push(server);
  await once(server, "listening");
  const address = server.address();
  return typeof address === "object" && address ? address.port : 0;
}

/** Starts a separate process group in which the leader or its child listens. */
async function listenElsewhere(script: string): Promise<{ group: number; port: number }> {
  const child = spawn(process.execPath, ["-e", script], { detached: true, stdio: ["ignore", "pipe", "ignore"] });
  children.push(child);
  const [line] = await once(child.stdout, "data");
  return { group: child.pid ?? 0, port: Number(line) };
}

const listening = `const server = require("node:net").createServer();
server.listen(0, "127.0.0.1", () => console.log(server.address().port));`;
const listeningBelow = `require("node:child_process").spawn(process.execPath, ["-e", ${JSON.stringify(listening)}], {
  stdio: ["ignore", "inherit", "ignore"],
});`;

test("a port's owner is the process that listens on it", async () => {
  expectOwner(await listen());
});

test("a port's owner can be a process with an outgoing connection from that port", async () => {
  const socket = connect({ host: "127.0.0.1", port: await listen() });
  await once(socket, "connect");
  expectOwner(socket.localPort ?? 0);
  socket.destroy();
});

function expectOwner(port: number): void {
  if (procTells) expect(portOwner(port)).toContain(`(${process.pid})`);
  else expect(portOwner(port)).toBeUndefined();
}

test.each([
  ["its leader", listening],
  ["a child of its leader", listeningBelow],
])("recognizes that a process group listens on a port through %s", async (_, script) => {
  const { group, port } = await listenElsewhere(script);
  expect(groupListens(group, [port])).toBe(true);
});

test("a process group counts as listening only if it listens on every given port itself", async () => {
  const { group, port } = await listenElsewhere(listening);
  const { port: foreign } = await listenElsewhere(listening);
  const free = await holdFreePort();
  await free.release();
  const believed = !procTells;
  expect(groupListens(group, [foreign])).toBe(believed);
  expect(groupListens(group, [port, foreign])).toBe(believed);
  expect(groupListens(group, [port, free.port])).toBe(believed);
});

test("if no listener on a port is found, portOwner returns undefined and groupListens returns true for any process group", async () => {
  const { group } = await listenElsewhere(listening);
  const held = await holdFreePort();
  await held.handOver();
  expect(groupListens(group, [held.port])).toBe(true);
  await held.release();
  expect(portOwner(held.port)).toBeUndefined();
  expect(groupListens(group, [held.port])).toBe(true);
});
