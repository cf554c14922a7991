/**
 * Shows how a command is used, and ends the process, where that is asked. It comes before everything else, so that no
 * project has to run for it.
 */
export function helpWhereAsked(usage: string, argv = process.argv.slice(2)): void {
  if (!argv.includes("--help") && !argv.includes("-h")) return;
  console.log(usage);
  process.exit(0);
}
