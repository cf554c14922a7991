import { createSatellite } from "@gatehousehq/satellite/hono";
import { serve } from "@hono/node-server";
import { Hono } from "hono";

const app = new Hono();
const satellite = createSatellite();
app.use(satellite);

app.get("/", (c) => c.text(`Hello ${c.get("user")?.email ?? "Hono"}!`));
app.get("/private", satellite.requireUser, (c) =>
  c.html('<account-menu></account-menu><script type="module" src="/account-menu.js"></script>'),
);

serve({ fetch: app.fetch, port: Number(process.env.PORT ?? 3000), hostname: "127.0.0.1" });
