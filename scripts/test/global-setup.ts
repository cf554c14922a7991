import { startStack } from "./start-stack.ts";

/** Starts a stack for the tests unless one is named already, and stops it afterwards. */
export default async function setup(): Promise<(() => Promise<void>) | undefined> {
  if (process.env.GATEHOUSE_STACK) return undefined;
  const stack = await startStack();
  process.env.GATEHOUSE_STACK = stack.file;
  return stack.stop;
}
