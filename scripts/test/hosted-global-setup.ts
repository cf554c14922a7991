import { installHostedDeno } from "../install.ts";
import startStack from "./global-setup.ts";

/** Installs the Deno of hosted Supabase's runtime, and starts a stack for the tests unless GATEHOUSE_STACK names one. */
export default async function setup(): Promise<(() => Promise<void>) | undefined> {
  await installHostedDeno(".");
  return startStack();
}
