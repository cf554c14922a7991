import { startStack } from "./start-stack.ts";

/** Starts a stack for the tests unless GATEHOUSE_STACK names one. Returns a function that stops the started stack. */
export default async function setup(): Promise<(() => Promise<void>) | undefined> {
  if (process.env.GATEHOUSE_STACK) return undefined;
  const stack = await startStack();
  process.env.GATEHOUSE_STACK = stack.file;
  return stack.stop;
}
