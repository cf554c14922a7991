import { createServer, type Server } from "node:net";
import { afterEach, expect, test } from "vitest";
import { choosePorts, defaultPorts, describeTaken, type Ports, portOwner } from "./ports.ts";

const open: Server[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((server) => new Promise((resolve) => server.close(resolve))));
});

async function occupy(port = 0): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(port, "127.0.0.1", resolve));
  open.push(server);
  const address = server.address();
  return typeof address === "object" && address ? address.port : 0;
}

/**
 * A taken port whose neighbour is free, below those that systems give to whoever asks for any: nobody takes that one
 * meanwhile.
 */
async function occupyBesideFree(): Promise<number> {
  for (let wish = 5_000; wish < 10_000; wish += 2) {
    const port = await occupy(wish).catch(() => undefined);
    const next = port && (await occupy(port + 1).catch(() => undefined));
    if (!next) continue;
    const neighbour = open.pop();
    await new Promise((resolve) => neighbour?.close(resolve));
    return port;
  }
  throw new Error("No two ports beside each other are free.");
}

const anyPorts = Object.fromEntries(Object.keys(defaultPorts).map((name) => [name, 0])) as Ports;

test("any free ports are all different", async () => {
  const { ports, taken } = await choosePorts(anyPorts);
  expect(new Set(Object.values(ports)).size).toBe(Object.keys(defaultPorts).length);
  expect(taken).toEqual([]);
});

test("a taken port is named, and the next free one is chosen that no other service wishes", async () => {
  const port = await occupyBesideFree();
  const { ports, taken } = await choosePorts({ ...anyPorts, web: port, gateway: port + 1 });
  expect(ports.gateway).toBe(port + 1);
  expect(ports.web).toBeGreaterThan(port + 1);
  expect(taken).toMatchObject([{ name: "web", port, chosen: ports.web }]);
});

test("the owner of a taken port is known where /proc tells it", async () => {
  const owner = portOwner(await occupy());
  if (process.platform === "linux") expect(owner).toContain(`(${process.pid})`);
  else expect(owner).toBeUndefined();
});

test("the message names the port, its owner where known, and the port used instead", () => {
  const taken = { name: "web", port: 3000, chosen: 3001 } as const;
  expect(describeTaken({ ...taken, owner: "nginx (12)" })).toBe("port 3000 for web is taken by nginx (12); using 3001");
  expect(describeTaken({ ...taken, owner: undefined })).toBe("port 3000 for web is taken; using 3001");
});
