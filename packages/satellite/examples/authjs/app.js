import { ExpressAuth, getSession } from "@auth/express";
import express from "express";

const config = {
  trustHost: true,
  basePath: "/auth",
  providers: [
    {
      id: "gatehouse",
      name: "Gatehouse",
      type: "oidc",
      issuer: process.env.ISSUER,
      clientId: process.env.CLIENT_ID,
      clientSecret: process.env.CLIENT_SECRET,
      checks: ["pkce", "state", "nonce"],
    },
  ],
};

const app = express();
app.set("trust proxy", true);
app.use(config.basePath, ExpressAuth(config));
app.get("/", async (req, res) => {
  const session = await getSession(req, config);
  res.send(session ? `Hello ${session.user.email}! <a href="/auth/signout">Sign out</a>` : "Hello World!");
});
app.listen(process.env.PORT ?? 3000, "127.0.0.1");
