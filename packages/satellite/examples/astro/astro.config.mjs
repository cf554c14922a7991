import node from "@astrojs/node";
import { defineConfig } from "astro/config";

export default defineConfig({
  output: "server",
  adapter: node({ mode: "standalone" }),
  // The app's own hosts. For any other Host, Astro assumes localhost and refuses all forms.
  security: { allowedDomains: [{ hostname: "127.0.0.1" }, { hostname: "memo.example.com" }] },
});
