/** A fresh app of one framework: the framework's starter with the lines that the guide adds. */
export interface SatelliteApp {
  name: string;
  /** True for an OpenID client, which needs no package of ours. */
  isOpenidClient?: true;
  /** Arguments of `node` that build the app. */
  build?: readonly string[];
  /** Arguments of `node` that start the app on `PORT`. */
  start: readonly string[];
  /**
   * The files that the guide shows in full, in its order. The guide is docs/openid.md for an OpenID client, otherwise
   * docs/satellites.md.
   */
  documented: readonly string[];
}

export const satelliteApps: readonly SatelliteApp[] = [
  { name: "express", start: ["app.js"], documented: ["app.js"] },
  { name: "hono", start: ["app.js"], documented: ["app.js"] },
  {
    name: "next",
    build: ["node_modules/next/dist/bin/next", "build"],
    start: ["node_modules/next/dist/bin/next", "start", "--hostname", "127.0.0.1"],
    documented: ["satellite.ts", "proxy.ts", "app/page.tsx"],
  },
  {
    name: "react-router",
    build: ["node_modules/@react-router/dev/bin.cjs", "build"],
    start: ["node_modules/@react-router/serve/bin.cjs", "build/server/index.js"],
    documented: ["app/satellite.server.ts", "app/routes/satellite.ts"],
  },
  {
    name: "sveltekit",
    build: ["node_modules/vite/bin/vite.js", "build"],
    start: ["node_modules/vite/bin/vite.js", "preview", "--bypass-lock"],
    documented: ["src/hooks.server.js"],
  },
  {
    name: "astro",
    build: ["node_modules/astro/bin/astro.mjs", "build"],
    start: ["dist/server/entry.mjs"],
    documented: ["src/middleware.js"],
  },
  { name: "authjs", isOpenidClient: true, start: ["app.js"], documented: ["app.js"] },
  { name: "passport", isOpenidClient: true, start: ["app.js"], documented: [] },
];
