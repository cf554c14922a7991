import { startStack } from "./start-stack.ts";

/** Gives the tests a stack of their own unless one is named already; ends it after them. */
export default async function setup(): Promise<(() => Promise<void>) | undefined> {
  if (process.env.GATEHOUSE_STACK) return undefined;
  const stack = await startStack();
  process.env.GATEHOUSE_STACK = stack.file;
  return stack.stop;
}
