import { index, type RouteConfig, route } from "@react-router/dev/routes";

export default [
  index("routes/home.tsx"),
  route("private", "routes/private.tsx"),
  route("*", "routes/satellite.ts"),
] satisfies RouteConfig;
