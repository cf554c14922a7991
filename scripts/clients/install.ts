import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { type Client, type Runtime, readManifest, sourceDir } from "./clients.ts";

const root = path.resolve(".local/clients");
const installTimeoutMs = 15 * 60_000;

/** The commands that each runtime needs. */
const needed: Record<Runtime, readonly string[]> = { node: ["npm"], python: ["python3"], java: ["java", "mvn"] };

/** Returns the first command that the client needs and that this machine lacks. */
export function missingCommand({ runtime }: Client): string | undefined {
  return needed[runtime].find((command) => spawnSync(command, ["--version"]).status !== 0);
}

/** How a client's program is run. */
export type Installed = { command: string; args: string[]; cwd: string };

/**
 * Installs a client below `.local/clients/`, unless its current manifest is already installed there.
 * @returns the command that runs its program
 * @throws Error with the end of the installer's output
 */
export function install(client: Client): Installed {
  const program = path.join(sourceDir, client.program);
  switch (client.runtime) {
    case "node": {
      const cwd = path.join(root, "js");
      const options = ["--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund"];
      once(client, cwd, () => {
        cpSync(path.join(sourceDir, client.manifest), path.join(cwd, "package.json"));
        run("npm", ["install", "--prefix", cwd, ...options], cwd);
      });
      // Node resolves packages from the directory of the program.
      cpSync(path.join(sourceDir, "js"), cwd, { recursive: true });
      return { command: process.execPath, args: [path.basename(program)], cwd };
    }
    case "python": {
      const cwd = path.join(root, client.name);
      const interpreter = path.join(cwd, "venv/bin/python");
      const requirements = path.join(sourceDir, client.manifest);
      once(client, cwd, () => {
        run("python3", ["-m", "venv", "venv"], cwd);
        run(interpreter, ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements], cwd);
      });
      return { command: interpreter, args: [program], cwd };
    }
    case "java": {
      const cwd = path.join(root, client.name);
      const pom = path.join(sourceDir, client.manifest);
      once(client, cwd, () => {
        run("mvn", ["-q", "-B", "-f", pom, "dependency:copy-dependencies", `-DoutputDirectory=${cwd}/jars`], cwd);
      });
      return { command: "java", args: ["-cp", "jars/*", program], cwd };
    }
  }
}

/** Installs into an empty directory, unless the same versions are already installed there. */
function once(client: Client, directory: string, installNow: () => void): void {
  const stamp = path.join(directory, ".installed");
  const versions = needed[client.runtime].map((command) => spawnSync(command, ["--version"], { encoding: "utf8" }));
  const wanted = [...versions.map(({ stdout }) => stdout), readManifest(client)].join("\n");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === wanted) return;
  console.log(`installing ${client.name} …`);
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory, { recursive: true });
  installNow();
  writeFileSync(stamp, wanted);
}

function run(command: string, args: string[], cwd: string): void {
  const { status, stdout, stderr, error } = spawnSync(command, args, {
    cwd,
    encoding: "utf8",
    timeout: installTimeoutMs,
    maxBuffer: 64 * 1024 * 1024,
  });
  if (error) throw error;
  if (status !== 0) throw new Error(`${command} ended with code ${status}:\n${(stdout + stderr).slice(-4_000)}`);
}
