ALTER TABLE "connections" ADD COLUMN "connected_since" timestamp with time zone DEFAULT now() NOT NULL;--> statement-breakpoint
UPDATE "connections" SET "connected_since" = "connected_at";
