import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import path from "node:path";
import { groupMembers } from "./processes.ts";

type Socket = { address: string; port: number; link: string; listens: boolean };

const listenState = "0A";
/** Matches ::1 in either byte order. */
const loopback6 = /^0{24}(01000000|00000001)$/;

/** Reads every TCP socket of this machine from Linux's /proc. Returns none on other systems. */
function readSockets(): Socket[] {
  try {
    return ["/proc/net/tcp", "/proc/net/tcp6"]
      .flatMap((file) => readFileSync(file, "utf8").trim().split("\n").slice(1))
      .map((line) => line.trim().split(/\s+/))
      .map(([, local = "", , state, , , , , , inode]) => {
        const [address = "", port = ""] = local.split(":");
        return {
          address,
          port: Number.parseInt(port, 16),
          link: `socket:[${inode}]`,
          listens: state === listenState,
        };
      });
  } catch {
    return [];
  }
}

/** Lists the targets of a process's open files, as far as we may read them. */
function openFiles(pid: number | string): string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`).map((fd) => {
      try {
        return readlinkSync(`/proc/${pid}/fd/${fd}`);
      } catch {
        return "";
      }
    });
  } catch {
    return [];
  }
}

/**
 * Returns the process that uses a port of this machine, as a listener or as the local end of a connection, as `command
 * (pid)`. Returns undefined unless Linux's /proc shows the process.
 */
export function portOwner(port: number): string | undefined {
  const sockets = readSockets().filter((socket) => socket.port === port);
  const listening = sockets.filter(({ listens }) => listens);
  const links = new Set((listening.length > 0 ? listening : sockets).map(({ link }) => link));
  if (links.size === 0) return undefined;
  try {
    const pid = readdirSync("/proc").find((entry) => /^\d+$/.test(entry) && openFiles(entry).some((f) => links.has(f)));
    return pid && `${commandOf(pid)} (${pid})`;
  } catch {
    return undefined;
  }
}

/** Returns a process's program and first argument, short enough for a message. */
function commandOf(pid: string): string {
  const [program = "", first = ""] = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
  const command = `${path.basename(program)} ${first}`.trim();
  return (command || readFileSync(`/proc/${pid}/comm`, "utf8").trim()).slice(0, 80);
}

/**
 * Returns whether the process group listens on all of these ports. Also returns true if /proc lists no listener on any
 * of them, because the ports' owner is then unknown. Ignores listeners on ::1, because a starting stack reserves its
 * ports there.
 */
export function groupListens(group: number, ports: readonly number[]): boolean {
  const listeners = readSockets().filter(
    ({ address, port, listens }) => listens && ports.includes(port) && !loopback6.test(address),
  );
  if (listeners.length === 0) return true;
  const own = new Set(groupMembers(group).flatMap(openFiles));
  return ports.every((port) => listeners.some((socket) => socket.port === port && own.has(socket.link)));
}
