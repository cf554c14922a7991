import { randomInt } from "node:crypto";
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { createServer } from "node:net";
import path from "node:path";
import { codeOf, StackError } from "./errors.ts";

/** The ports that people know; the next free one where one is taken. */
export const defaultPorts = {
  web: 3000,
  notes: 3001,
  gateway: 54321,
  postgres: 54322,
  mail: 54324,
  smtp: 54325,
  identity: 54326,
  functions: 54327,
  provider: 54328,
  oidc: 54329,
  turnstile: 54330,
} as const;

export type PortName = keyof typeof defaultPorts;
export type Ports = Record<PortName, number>;
export type TakenPort = { name: PortName; port: number; owner: string | undefined; chosen: number };

const highestPort = 65_535;
/** "Any port" is one below those that systems give to outgoing connections, which could take it before we do. */
const anyPort = { from: 10_000, to: 32_000 };

/** Listens for a moment, on both loopback addresses, since browsers may try either for localhost. */
async function isFree(port: number): Promise<boolean> {
  return (await canListen(port, "127.0.0.1")) && (await canListen(port, "::1"));
}

function canListen(port: number, host: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", (error) => {
      const code = codeOf(error);
      if (code === "EADDRINUSE" || code === "EACCES") resolve(false);
      else if (host === "::1") resolve(true);
      else reject(error);
    });
    server.listen({ port, host, exclusive: true }, () => server.close(() => resolve(true)));
  });
}

/** The process that listens on a port of this machine, as `command (pid)`, where Linux's /proc lets us see it. */
export function portOwner(port: number): string | undefined {
  try {
    const hex = port.toString(16).toUpperCase().padStart(4, "0");
    const inodes = new Set(
      ["/proc/net/tcp", "/proc/net/tcp6"]
        .flatMap((file) => readFileSync(file, "utf8").split("\n").slice(1))
        .map((line) => line.trim().split(/\s+/))
        .filter((fields) => fields[3] === "0A" && fields[1]?.endsWith(`:${hex}`))
        .map((fields) => `socket:[${fields[9]}]`),
    );
    if (inodes.size === 0) return undefined;
    const pid = readdirSync("/proc").find((entry) => /^\d+$/.test(entry) && holdsSocket(entry, inodes));
    return pid && `${commandOf(pid)} (${pid})`;
  } catch {
    return undefined;
  }
}

/** A process's program and its first argument, short enough for a message. */
function commandOf(pid: string): string {
  const [program = "", first = ""] = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
  const command = `${path.basename(program)} ${first}`.trim();
  return (command || readFileSync(`/proc/${pid}/comm`, "utf8").trim()).slice(0, 80);
}

function holdsSocket(pid: string, sockets: ReadonlySet<string>): boolean {
  try {
    return readdirSync(`/proc/${pid}/fd`).some((fd) => {
      try {
        return sockets.has(readlinkSync(`/proc/${pid}/fd/${fd}`));
      } catch {
        return false;
      }
    });
  } catch {
    return false;
  }
}

/**
 * A port for each name: the wished one, or the next free one; any free one where the wish is 0.
 * @returns the ports and, of the wished ones, those that were taken
 */
export async function choosePorts(wished: Ports): Promise<{ ports: Ports; taken: TakenPort[] }> {
  const ports: Partial<Ports> = {};
  const taken: TakenPort[] = [];
  const names = Object.keys(wished) as PortName[];
  const reserved = new Set(names.map((name) => wished[name]));
  for (const name of names) {
    const wish = wished[name];
    const chosen =
      wish !== 0 && (await isFree(wish)) ? wish : await nextFree(wish || randomInt(anyPort.from, anyPort.to));
    if (wish !== 0 && chosen !== wish) taken.push({ name, port: wish, owner: portOwner(wish), chosen });
    ports[name] = chosen;
    reserved.add(chosen);
  }
  return { ports: ports as Ports, taken };

  async function nextFree(from: number): Promise<number> {
    for (let port = from; port <= highestPort; port += 1) {
      if (!reserved.has(port) && (await isFree(port))) return port;
    }
    throw new StackError(`There is no free port from ${from} up. Choose others: --ports auto`);
  }
}

/** What to tell the person at the terminal about a taken port. */
export function describeTaken({ name, port, owner, chosen }: TakenPort): string {
  return `port ${port} for ${name} is taken${owner ? ` by ${owner}` : ""}; using ${chosen}`;
}
