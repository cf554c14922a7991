#!/usr/bin/env node
import { homedir } from "node:os";
import { join } from "node:path";
import { connect, disconnect, readToken } from "./agents.ts";
import { type Command, comparingVerbs, Misuse, readCommand, toolNames, usage } from "./arguments.ts";
import { describeEnvelope } from "./envelopes.ts";
import { Failure } from "./failure.ts";
import { signIn, signOut } from "./login.ts";
import { escapeUnprintable } from "./printable.ts";
import { withLock } from "./private-files.ts";
import { describeStatus } from "./status.ts";
import { Store } from "./store.ts";

const maxModelsShown = 10;

/**
 * `gatehouse …`: connects coding agents to the gateway with short-lived keys (docs/coding-agents.md), and applies files
 * that describe a platform (docs/platform-file.md).
 */
const store = new Store(join(process.env.XDG_CONFIG_HOME || join(homedir(), ".config"), "gatehouse"));

try {
  await run(readCommand(process.argv.slice(2)));
} catch (error) {
  if (!(error instanceof Failure)) throw error;
  console.error(escapeUnprintable(`gatehouse: ${error.message}`));
  if (error instanceof Misuse) console.error(`\n${usage}`);
  const isComparing = process.argv.some((argument) => comparingVerbs.includes(argument));
  process.exitCode = error.kind === "usage" && !isComparing ? 2 : 1;
}

async function run(command: Command): Promise<void> {
  switch (command.verb) {
    case "help":
      console.log(usage);
      return;
    case "login": {
      const { account, url } = await signIn(store, { ...command, print });
      print(`Signed in to ${url} as ${account}.`);
      return;
    }
    case "logout": {
      const { url, fault } = await withLock(store.folder, () => signOut(store));
      if (fault === null) print(`Signed out of ${url}. Keys from this sign-in no longer work.`);
      else {
        print(`Signed out on this computer: its tokens and keys are deleted. ${url} was not told: ${fault}`);
        print("To end the sign-in there too, disconnect it under Connected apps in your settings.");
      }
      return;
    }
    case "connect": {
      const { connection, file, isChanged, models, envelope } = await connect(store, command);
      const change = isChanged ? `Changed ${file}.` : `The key is new, and ${file} is unchanged.`;
      print(`${toolNames[command.tool]} uses ${connection.workspaceName}. ${change}`);
      if (envelope) print(`Limit: ${describeEnvelope(envelope, connection)}`);
      if (command.model === undefined && models[0] !== undefined) {
        // No full stop after the command: ids may contain one, so a copied one would name another model.
        print(`To choose its model, run: gatehouse connect ${command.tool} --model ${models[0]}`);
        if (models.length > 1) print(`Other models: ${models.slice(1, maxModelsShown).join(", ")}`);
      }
      if (command.tool === "opencode")
        print("Before each start of opencode, run: gatehouse token opencode > /dev/null");
      return;
    }
    case "disconnect": {
      const { isRevoked } = await disconnect(store, command.tool);
      print(`${toolNames[command.tool]} is disconnected.`);
      if (!isRevoked) print("Its key couldn’t be revoked. Revoke it on the workspace’s API keys page.");
      return;
    }
    case "token":
      console.log(await readToken(store, command.tool));
      return;
    case "status":
      for (const line of await describeStatus(store)) print(line);
      return;
    case "api": {
      const { runApiCommand } = await import("./api-command.ts");
      await runApiCommand(command, print);
      return;
    }
    case "export":
    case "plan":
    case "drift":
    case "apply": {
      // Agents run gatehouse token often, which needs none of this.
      const { runPlatformCommand } = await import("./platform-file/commands.ts");
      process.exitCode = await runPlatformCommand(command, { print, write: (text) => process.stdout.write(text) });
      return;
    }
  }
}

/** Prints a line. Names come from the platform, so a control character in them never reaches the terminal. */
function print(text: string): void {
  console.log(escapeUnprintable(text));
}
