import { createSatellite } from "@gatehousehq/satellite/next";

export const satellite = createSatellite();
