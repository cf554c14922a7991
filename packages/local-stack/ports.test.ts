import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";
import { afterEach, describe, expect, test, vi } from "vitest";
import { StackError } from "./errors.ts";
import {
  automaticPorts,
  defaultPorts,
  describeTaken,
  type HeldPort,
  type HeldPorts,
  holdFreePort,
  holdPorts,
  numbersOf,
  type Ports,
  releaseAll,
} from "./ports.ts";

const servers: Server[] = [];
const sockets: Socket[] = [];
const holds: HeldPort[] = [];
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.resetAndDestroy();
  await Promise.all(holds.splice(0).map((one) => one.release()));
  await Promise.all(servers.splice(0).map((server) => new Promise((resolve) => server.close(resolve))));
});

async function occupy(port = 0, host = "127.0.0.1"): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(port, host, resolve));
  servers.push(server);
  const address = server.address();
  return typeof address === "object" && address ? address.port : 0;
}

/** Opens a connection to this process. @returns the local port that the system gave it */
async function openConnection(): Promise<number> {
  const socket = connect({ host: "127.0.0.1", port: await occupy() });
  sockets.push(socket);
  servers.at(-1)?.on("connection", (accepted) => sockets.push(accepted));
  await once(socket, "connect");
  return socket.localPort ?? 0;
}

const canListen = (port: number, host: string) =>
  occupy(port, host).then(
    () => true,
    () => false,
  );

/** Reserves ports as the stack does when it starts, and releases them after the test. */
async function hold(wished: Ports): ReturnType<typeof holdPorts> {
  const found = await holdPorts(wished);
  holds.push(...Object.values(found.held));
  return found;
}

async function holdAny(): Promise<HeldPort> {
  const one = await holdFreePort();
  holds.push(one);
  return one;
}

/** Returns the first of two adjacent free ports below the range for outgoing connections. */
async function freePair(): Promise<number> {
  for (;;) {
    const first = await holdFreePort();
    const second = await holdFreePort({ from: first.port + 1 });
    await Promise.all([first.release(), second.release()]);
    if (second.port === first.port + 1) return first.port;
  }
}

const anyPorts = Object.fromEntries(Object.keys(defaultPorts).map((name) => [name, 0])) as Ports;
const used = (held: HeldPorts) => Object.values(numbersOf(held));

test("the range of automatically chosen ports begins right after the highest port that `fetch` refuses", async () => {
  const causeAt = (port: number) =>
    fetch(`http://127.0.0.1:${port}`).then(
      () => "none",
      (error: Error) => (error.cause as Error).message,
    );
  expect(await causeAt(automaticPorts.from - 1)).toBe("bad port");
  expect(await causeAt(automaticPorts.from)).not.toBe("bad port");
});

test("automatically chosen ports are all different", async () => {
  const { held, taken } = await hold(anyPorts);
  expect(new Set(used(held)).size).toBe(Object.keys(defaultPorts).length);
  expect(taken).toEqual([]);
});

test("reports a taken port and chooses the next free one that no other service requests", async () => {
  const port = await freePair();
  await occupy(port);
  const { held, taken } = await hold({ ...anyPorts, web: port, gateway: port + 1 });
  expect(held.gateway.port).toBe(port + 1);
  expect(held.web.port).toBeGreaterThan(port + 1);
  expect(taken).toMatchObject([{ name: "web", port, chosen: held.web.port }]);
});

test("counts a port that is in use only on ::1 as taken, since browsers may try ::1 for localhost", async () => {
  const port = await freePair();
  await occupy(port, "::1");
  const { taken } = await hold({ ...anyPorts, web: port });
  expect(taken).toMatchObject([{ name: "web", port }]);
});

test("counts a port as taken if it is the local port of a connection", async () => {
  const port = await openConnection();
  const { held, taken } = await hold({ ...anyPorts, mail: port });
  expect(taken).toMatchObject([{ name: "mail", port, chosen: held.mail.port }]);
  if (process.platform === "linux") expect(taken[0]?.owner).toContain(`(${process.pid})`);
});

test("two concurrent starts choose different ports", async () => {
  const port = await freePair();
  const wished = { ...anyPorts, web: port, gateway: port + 1 };
  const [one, other] = await Promise.all([hold(wished), hold(wished)]);
  expect(new Set([...used(one.held), ...used(other.held)]).size).toBe(2 * Object.keys(defaultPorts).length);
});

describe("the highest port number", () => {
  test("port 65535 is chosen if it is the next free one", async () => {
    const one = await vi.waitFor(() => holdFreePort({ from: 65_534, except: new Set([65_534]) }));
    holds.push(one);
    expect(one.port).toBe(65_535);
  });

  test("a start that needs a port above 65535 is refused and releases its ports", async () => {
    const gateway = await freePair();
    const refused = holdPorts({ ...anyPorts, gateway, provider: 65_535, oidc: 65_535 });
    await expect(refused).rejects.toThrow(StackError);
    await expect(refused).rejects.toThrow("There is no free port from 65535 up. Choose others: --ports auto");
    expect(await canListen(gateway, "127.0.0.1")).toBe(true);
    expect(await canListen(gateway, "::1")).toBe(true);
  });
});

describe("a reserved port", () => {
  test("a reserved port cannot be bound by another process, and connections to it are reset", async () => {
    const { port } = await holdAny();
    expect(await canListen(port, "127.0.0.1")).toBe(false);
    expect(await canListen(port, "::1")).toBe(false);
    const socket = connect({ host: "127.0.0.1", port });
    sockets.push(socket);
    await expect(once(socket, "close")).rejects.toThrow("ECONNRESET");
  });

  test("after a reserved port is handed over, the service can bind the port, and a second stack start counts the port as taken", async () => {
    const one = await holdAny();
    await one.handOver();
    const { taken } = await hold({ ...anyPorts, web: one.port });
    expect(taken).toMatchObject([{ name: "web", port: one.port }]);
    expect(await one.isTaken()).toBe(false);
    expect(await canListen(one.port, "127.0.0.1")).toBe(true);
    expect(await one.isTaken()).toBe(true);
  });

  test("a released port is free, and can be handed to its service again when the service restarts", async () => {
    const one = await holdAny();
    await one.handOver();
    await one.release();
    expect(await canListen(one.port, "::1")).toBe(true);
    await one.handOver();
    expect(await one.isTaken()).toBe(false);
    expect(await canListen(one.port, "127.0.0.1")).toBe(true);
  });

  test("releaseAll frees all reserved ports", async () => {
    const { held } = await hold(anyPorts);
    await releaseAll(held);
    expect(await Promise.all(used(held).map((port) => canListen(port, "127.0.0.1")))).not.toContain(false);
  });
});

test("the message about a taken port names the port, its owner if known, and the port used instead", () => {
  const taken = { name: "web", port: 3000, chosen: 3001 } as const;
  expect(describeTaken({ ...taken, owner: "nginx (12)" })).toBe("port 3000 for web is taken by nginx (12); using 3001");
  expect(describeTaken({ ...taken, owner: undefined })).toBe("port 3000 for web is taken; using 3001");
});
