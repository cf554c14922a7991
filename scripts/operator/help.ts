/**
 * Shows a command's usage and ends the process if help was requested. Called first, so that help works without a
 * running project.
 */
export function helpWhereAsked(usage: string, argv = process.argv.slice(2)): void {
  if (!argv.includes("--help") && !argv.includes("-h")) return;
  console.log(usage);
  process.exit(0);
}
