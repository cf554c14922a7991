import { createAdaptorServer } from "@hono/node-server";
import { z } from "zod";
import { createProvider } from "./app.ts";

const environment = z.object({
  PORT: z.coerce.number().int(),
  HOST: z.string().default("127.0.0.1"),
  PROVIDER_API_KEY: z.string().min(1),
});

const parsed = environment.safeParse(process.env);
if (!parsed.success) {
  console.error(`The demo provider's environment is incomplete:\n${z.prettifyError(parsed.error)}`);
  process.exit(1);
}
const { PORT, HOST, PROVIDER_API_KEY } = parsed.data;
const server = createAdaptorServer({ fetch: createProvider({ apiKey: PROVIDER_API_KEY }).fetch });
server.once("error", (error) => {
  console.error(`The demo provider cannot listen on ${HOST}:${PORT}: ${error.message}`);
  process.exit(1);
});
server.listen(PORT, HOST, () => console.log(`demo provider listens on http://${HOST}:${PORT}`));

for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(0));
