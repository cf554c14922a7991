import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { readStack } from "./stack.ts";

/** The result of a run of the command. */
export interface Ran {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** The `gatehouse` command with a separate home folder. */
export interface CommandLine {
  home: string;
  /** Runs the command. @param options.onLine receives each line of stdout immediately */
  run(
    args: string[],
    options?: { onLine?: (line: string) => void; environment?: Record<string, string> },
  ): Promise<Ran>;
  remove(): Promise<void>;
}

const main = fileURLToPath(new URL("../../packages/cli/src/main.ts", import.meta.url));

/** Prepares the command with an empty home folder. */
export async function openCommandLine(): Promise<CommandLine> {
  const home = await mkdtemp(join(tmpdir(), "gatehouse-command-"));
  return {
    home,
    run: (args, { onLine, environment } = {}) =>
      new Promise((resolve, reject) => {
        const child = spawn(process.execPath, [main, ...args], {
          // Passes no other variables of this process, since some would make the command use other folders.
          env: { PATH: process.env.PATH, HOME: home, ...environment } as unknown as NodeJS.ProcessEnv,
          stdio: ["ignore", "pipe", "pipe"],
        });
        const ran: Ran = { code: null, stdout: "", stderr: "" };
        child.stdout.setEncoding("utf8").on("data", (text: string) => {
          ran.stdout += text;
          for (const line of text.split("\n")) if (line) onLine?.(line);
        });
        child.stderr.setEncoding("utf8").on("data", (text: string) => {
          ran.stderr += text;
        });
        child.on("error", reject).on("close", (code) => resolve({ ...ran, code }));
      }),
    remove: () => rm(home, { recursive: true, force: true }),
  };
}

/**
 * Signs in with the command. @param options.approve approves in place of the person, at the address that the command
 * prints
 */
export function signInByCommand(
  terminal: CommandLine,
  { clientId, approve }: { clientId: string; approve: (address: string) => Promise<void> },
): Promise<Ran> {
  let approved: Promise<void> | undefined;
  const ran = terminal.run(["login", "--url", readStack().base, "--client-id", clientId], {
    onLine: (line) => {
      const address = /^Open (\S+)$/.exec(line)?.[1];
      if (address) approved = approve(address);
    },
  });
  return ran.then(async (result) => {
    await approved;
    return result;
  });
}
