import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

/** A command's output and exit code. */
export interface Said {
  code: number;
  out: string;
  err: string;
}

/** The command-line mobile app of scripts/mobile/, with its own session file. */
export interface CommandLinePhone {
  sessionFile: string;
  /** Runs one command as a person would type it. */
  run(argv: readonly string[], environment?: Record<string, string>): Promise<Said>;
  /** Deletes the phone's session file. */
  close(): void;
}

const script = path.resolve(import.meta.dirname, "../mobile/main.ts");

/** Creates a phone for the stack that GATEHOUSE_STACK names. */
export function openCommandLinePhone(): CommandLinePhone {
  const directory = mkdtempSync(path.join(tmpdir(), "gatehouse-phone-"));
  const sessionFile = path.join(directory, "session.json");
  return {
    sessionFile,
    run: (argv, environment = {}) =>
      new Promise((resolve) => {
        const child = execFile(
          process.execPath,
          [script, ...argv, "--session", sessionFile],
          { env: { ...process.env, MOBILE_PASSWORD: "", ...environment } },
          (error, out, err) => resolve({ code: error ? Number(error.code ?? 1) : 0, out: out.trim(), err: err.trim() }),
        );
        child.stdin?.end();
      }),
    close: () => rmSync(directory, { recursive: true, force: true }),
  };
}
