import { type ParseArgsConfig, parseArgs } from "node:util";
import { messageOf } from "@gatehousehq/local-stack/errors";

/**
 * Shows a command's usage and ends the process if help was requested. Called first, so that help works without a
 * running project.
 */
export function helpWhereAsked(usage: string, argv = process.argv.slice(2)): void {
  if (!argv.includes("--help") && !argv.includes("-h")) return;
  console.log(usage);
  process.exit(0);
}

/** Reads a command's arguments. If they are wrong, shows what is wrong and the usage, and ends the process with 2. */
export function readArguments<const Config extends ParseArgsConfig>(usage: string, config: Config) {
  helpWhereAsked(usage);
  try {
    return parseArgs(config);
  } catch (error) {
    console.error(`${messageOf(error)}\n\n${usage}`);
    process.exit(2);
  }
}
