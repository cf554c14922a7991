import { type SpawnOptions, spawn } from "node:child_process";
import { StackError } from "@gatehousehq/local-stack/errors";

/**
 * Runs a program to its end.
 * @param options.echo shows its output on the terminal
 * @returns its standard output, trimmed
 * @throws StackError if it is not installed or fails
 */
export async function run(
  command: string,
  args: readonly string[],
  { echo = false, env = process.env }: { echo?: boolean; env?: NodeJS.ProcessEnv } = {},
): Promise<string> {
  const stdio: SpawnOptions["stdio"] = ["ignore", "pipe", echo ? "inherit" : "pipe"];
  const child = spawn(command, args, { stdio, env });
  let output = "";
  let errors = "";
  child.stdout?.on("data", (chunk) => {
    output += chunk;
    if (echo) process.stderr.write(chunk);
  });
  child.stderr?.on("data", (chunk) => (errors += chunk));
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once("error", (error: NodeJS.ErrnoException) => {
      reject(error.code === "ENOENT" ? new StackError(`Images need ${command}: install its package.`) : error);
    });
    child.once("close", resolve);
  });
  if (code !== 0) throw new StackError(`${command} ${args[0]} failed.\n${errors.trim().slice(-2_000)}`);
  return output.trim();
}

export const buildah = (...args: string[]) => run("buildah", args);

/** Returns whether this machine can build images. */
export async function hasBuildah(): Promise<boolean> {
  return buildah("--version").then(
    () => true,
    () => false,
  );
}
