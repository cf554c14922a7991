import { vitePlugin as remix } from "@remix-run/dev";
import tailwindcss from "@tailwindcss/vite";
import { defineConfig } from "vite";
import remixConfig from "./remix.config.js";

declare module "@remix-run/node" {
  interface Future {
    v3_singleFetch: true;
  }
}

export default defineConfig(({ command }) => ({
  plugins: [tailwindcss(), remix(remixConfig)],
  // Vite finds dependencies in these files before the first visit. A dependency found during a visit would reload the
  // page with two copies of React.
  optimizeDeps: { entries: ["remix-app/entry.client.tsx", "remix-app/root.tsx", "remix-app/routes/**/*.tsx"] },
  // Keeps the hashed files of earlier builds, because open pages, and a server that still runs an earlier build,
  // request them.
  build: { target: "es2022", assetsInlineLimit: 0, emptyOutDir: false },
  // Bundles only the icons that we use. Otherwise the server would load all icons from one CommonJS file, which takes a
  // quarter of its startup time.
  ssr: { noExternal: command === "build" ? ["lucide-react"] : [] },
}));
