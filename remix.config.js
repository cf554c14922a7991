/** @type {import("@remix-run/dev").VitePluginConfig} */
export default {
  appDirectory: "remix-app",
  future: {
    v3_fetcherPersist: true,
    // Disabled, because the endpoint of lazy route discovery matches every path that a request lists, so one request
    // could take seconds.
    v3_lazyRouteDiscovery: false,
    v3_relativeSplatPath: true,
    v3_routeConfig: true,
    v3_singleFetch: true,
    v3_throwAbortReason: true,
  },
};
