import { spawn } from "node:child_process";
import { once } from "node:events";
import { globSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import type { Image } from "./build.ts";
import { buildah } from "./buildah.ts";

/** Folders that Buildah itself fills in a container. */
const filledFolders = new Set(["dev", "proc", "run", "sys"]);

/** A container that runs on this machine's network, with a read-only file system. */
export type RunningImage = {
  /** The process of the image's command. */
  pid: () => number;
  output: () => string;
  /** Sends SIGTERM to the image's command. @returns its exit code */
  stop: () => Promise<number | null>;
};

/** Starts an image with `buildah run`, with its own user. Every folder of the image is mounted read-only. */
export async function startImage({ reference }: Image, env: Record<string, string>): Promise<RunningImage> {
  const container = await buildah("from", "--pull=never", reference);
  const root = await buildah("mount", container);
  for (const file of ["hosts", "resolv.conf", "hostname"]) writeFileSync(path.join(root, "etc", file), "");
  const folders = readdirSync(root).filter((name) => !filledFolders.has(name));
  const child = spawn("buildah", [
    ...["run", "--isolation=chroot"],
    ...folders.flatMap((name) => ["--volume", `${root}/${name}:/${name}:ro`]),
    ...Object.entries(env).flatMap(([name, value]) => ["--env", `${name}=${value}`]),
    ...[container, "--", ...(await readCommand(container))],
  ]);
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
  const pid = () => findDescendant(child.pid ?? 0);
  let stopped: Promise<number | null> | undefined;
  async function stop(): Promise<number | null> {
    if (child.exitCode === null) {
      process.kill(pid(), "SIGTERM");
      await once(child, "exit");
    }
    await buildah("rm", container);
    return child.exitCode;
  }
  return {
    pid,
    output: () => output,
    stop() {
      stopped ??= stop();
      return stopped;
    },
  };
}

/** Returns the command of the image's configuration, which `buildah run` does not use by itself. */
async function readCommand(container: string): Promise<string[]> {
  return JSON.parse(await buildah("inspect", container)).Docker.config.Cmd;
}

/** Returns the last of a process's descendants: `buildah run` starts itself once more before it starts the command. */
function findDescendant(pid: number): number {
  const children = globSync(`/proc/${pid}/task/*/children`).flatMap((file) =>
    readFileSync(file, "utf8").split(" ").filter(Boolean),
  );
  return children[0] ? findDescendant(Number(children[0])) : pid;
}

/** Returns a process's resident memory in bytes, and its user and group ids. */
export function readProcess(pid: number): { memoryBytes: number; user: number; group: number } {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const field = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status)?.[1]);
  return { memoryBytes: field("VmRSS") * 1_024, user: field("Uid"), group: field("Gid") };
}
