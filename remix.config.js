/** @type {import("@remix-run/dev").VitePluginConfig} */
export default {
  appDirectory: "remix-app",
  future: {
    v3_fetcherPersist: true,
    // The endpoint of lazy route discovery matches all paths that a visitor lists, so one request could take seconds.
    v3_lazyRouteDiscovery: false,
    v3_relativeSplatPath: true,
    v3_routeConfig: true,
    v3_singleFetch: true,
    v3_throwAbortReason: true,
  },
};
