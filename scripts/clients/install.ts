import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { type Client, newestManifest, pinnedManifest, type Runtime, sourceDir, versionOf } from "./clients.ts";

const installTimeoutMs = 15 * 60_000;
/** The newest versions are installed once per run. */
const runId = new Date().toISOString();

type Tool = { name: string; command: string; args: readonly string[] };
const tool = (command: string, ...args: string[]): Tool => ({ name: command, command, args });
const supportedPython = "import sys; assert sys.version_info >= (3, 11); print(sys.version)";

/** The tools that each runtime needs, with the command that prints their version. */
const needed: Record<Runtime, readonly Tool[]> = {
  node: [tool("npm", "--version")],
  python: [{ ...tool("python3", "-c", supportedPython), name: "Python 3.11 or newer" }],
  java: [tool("java", "--version"), tool("mvn", "--version")],
  go: [tool("go", "version")],
};

/** Returns why this machine cannot run the client: a different platform, or the first missing tool. */
export function whySkipped({ runtime, platform }: Client): string | undefined {
  if (platform && platform !== `${process.platform}-${process.arch}`) return `it is for ${platform} only`;
  const missing = needed[runtime].find(({ command, args }) => spawnSync(command, args).status !== 0);
  return missing && `${missing.name} is not installed`;
}

/** How to run a client's program. */
export type Installed = { version: string; command: string; args: string[]; cwd: string };

/**
 * Installs a client below `.local/clients/`, unless its pinned versions are already installed. The packages that it
 * depends on have the newest versions that it allows; Go has their versions and hashes in its manifest and go.sum.
 * @param options.newest installs the newest versions instead of the pinned ones, in a separate directory
 * @throws Error with the end of the installer's output
 */
export function install(client: Client, { newest }: { newest: boolean }): Installed {
  const root = path.resolve(".local/clients", newest ? "newest" : "pinned");
  const program = path.join(sourceDir, client.program);
  const args = client.args ?? [];
  const manifestText = newest ? newestManifest(client) : pinnedManifest(client);
  switch (client.runtime) {
    case "node": {
      const cwd = path.join(root, "js");
      once(client, { cwd, newest }, () => {
        writeFileSync(path.join(cwd, "package.json"), manifestText);
        run("npm", ["install", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund"], cwd);
      });
      // Copies the programs next to the installed packages, because Node resolves packages from a program's directory.
      for (const file of readdirSync(path.dirname(program)))
        if (file.endsWith(".mjs")) cpSync(path.join(path.dirname(program), file), path.join(cwd, file));
      const manifest = readFileSync(path.join(cwd, "node_modules", client.package, "package.json"), "utf8");
      const { version } = JSON.parse(manifest);
      return { version, command: process.execPath, args: [path.basename(program), ...args], cwd };
    }
    case "python": {
      const cwd = path.join(root, client.name);
      const interpreter = path.join(cwd, "venv/bin/python");
      once(client, { cwd, newest }, () => {
        run("python3", ["-m", "venv", "venv"], cwd);
        writeFileSync(path.join(cwd, "requirements.txt"), manifestText);
        const pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        run(interpreter, [...pip, "-r", "requirements.txt"], cwd);
      });
      const print = `import importlib.metadata; print(importlib.metadata.version("${client.package}"))`;
      const version = run(interpreter, ["-c", print], cwd).trim();
      return { version, command: interpreter, args: [program, ...args], cwd };
    }
    case "java": {
      const cwd = path.join(root, client.name);
      once(client, { cwd, newest }, () => {
        writeFileSync(path.join(cwd, "pom.xml"), manifestText);
        run("mvn", ["-q", "-B", "dependency:copy-dependencies", `-DoutputDirectory=${cwd}/jars`], cwd);
      });
      const jar = new RegExp(`^${client.package}-(\\d.*)\\.jar$`);
      const [version = ""] = readdirSync(path.join(cwd, "jars")).flatMap((file) => jar.exec(file)?.[1] ?? []);
      return { version, command: "java", args: ["-cp", "jars/*", program, ...args], cwd };
    }
    case "go": {
      const cwd = path.join(root, client.name);
      once(client, { cwd, newest }, () => {
        cpSync(path.dirname(program), cwd, { recursive: true });
        if (newest) run("go", ["get", `${client.package}@latest`], cwd);
      });
      cpSync(program, path.join(cwd, path.basename(program)));
      run("go", ["build", "-mod=readonly", "-o", "client", "."], cwd);
      const version = run("go", ["list", "-m", "-f", "{{.Version}}", client.package], cwd).trim().slice(1);
      return { version, command: path.join(cwd, "client"), args: [...args], cwd };
    }
  }
}

/** Empties the directory and installs the client, unless the same versions are already installed there. */
function once(client: Client, { cwd, newest }: { cwd: string; newest: boolean }, installNow: () => void): void {
  const stamp = path.join(cwd, ".installed");
  const tools = needed[client.runtime].map(
    ({ command, args }) => spawnSync(command, args, { encoding: "utf8" }).stdout,
  );
  const wanted = [...tools, newest ? runId : pinnedManifest(client)].join("\n");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === wanted) return;
  console.log(`installing ${newest ? `the newest ${client.name}` : `${client.name} ${versionOf(client)}`} …`);
  rmSync(cwd, { recursive: true, force: true });
  mkdirSync(cwd, { recursive: true });
  installNow();
  writeFileSync(stamp, wanted);
}

/** @returns standard output */
function run(command: string, args: string[], cwd: string): string {
  const { status, stdout, stderr, error } = spawnSync(command, args, {
    cwd,
    encoding: "utf8",
    timeout: installTimeoutMs,
    maxBuffer: 64 * 1024 * 1024,
    // Stops Go from downloading another toolchain if the machine's is too old.
    env: { ...process.env, GOTOOLCHAIN: "local" },
  });
  if (error) throw error;
  if (status !== 0) throw new Error(`${command} ended with code ${status}:\n${(stdout + stderr).slice(-4_000)}`);
  return stdout;
}
