import { vitePlugin as remix } from "@remix-run/dev";
import tailwindcss from "@tailwindcss/vite";
import { defineConfig } from "vite";
import remixConfig from "./remix.config.js";

declare module "@remix-run/server-runtime" {
  interface Future {
    v3_singleFetch: true;
  }
}

export default defineConfig(({ command }) => ({
  plugins: [tailwindcss(), remix(remixConfig)],
  // Found before the first visit: dependencies found during one reload the page with two copies of React.
  optimizeDeps: { entries: ["remix-app/entry.client.tsx", "remix-app/root.tsx", "remix-app/routes/**/*.tsx"] },
  // Hashed files of an earlier build stay: a server that still runs on it, and pages that are open, ask for them.
  build: { target: "es2022", assetsInlineLimit: 0, emptyOutDir: false },
  // Its CommonJS form is one file of all icons, a quarter of what the server's start would take; the build takes ours.
  ssr: { noExternal: command === "build" ? ["lucide-react"] : [] },
}));
