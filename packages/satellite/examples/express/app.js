import { createSatellite } from "@gatehousehq/satellite/express";
import express from "express";

const app = express();
const satellite = createSatellite();
app.use(satellite);

app.get("/", (req, res) => {
  res.send(`Hello ${req.user?.email ?? "World"}!`);
});
app.get("/private", satellite.requireUser, (_req, res) => {
  res.send('<account-menu></account-menu><script type="module" src="/account-menu.js"></script>');
});
app.use(satellite.onError);

app.listen(process.env.PORT ?? 3000, "127.0.0.1");
