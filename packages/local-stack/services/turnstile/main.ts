import { createAdaptorServer } from "@hono/node-server";
import { z } from "zod";
import { createTurnstile } from "./app.ts";

const environment = z.object({
  PORT: z.coerce.number().int(),
  HOST: z.string().default("127.0.0.1"),
  TURNSTILE_SITE_KEY: z.string().min(1),
  TURNSTILE_SECRET: z.string().min(1),
  TURNSTILE_HOSTNAMES: z.string().transform((list) => list.split(",")),
});

const parsed = environment.safeParse(process.env);
if (!parsed.success) {
  console.error(`The bot challenge's environment is incomplete:\n${z.prettifyError(parsed.error)}`);
  process.exit(1);
}
const { PORT, HOST, TURNSTILE_SITE_KEY, TURNSTILE_SECRET, TURNSTILE_HOSTNAMES } = parsed.data;
const turnstile = createTurnstile({
  siteKey: TURNSTILE_SITE_KEY,
  secret: TURNSTILE_SECRET,
  hostnames: TURNSTILE_HOSTNAMES,
});
const server = createAdaptorServer({ fetch: turnstile.fetch });
server.once("error", (error) => {
  console.error(`The bot challenge cannot listen on ${HOST}:${PORT}: ${error.message}`);
  process.exit(1);
});
server.listen(PORT, HOST, () => console.log(`bot challenge listens on http://${HOST}:${PORT}`));

for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(0));
