ALTER TABLE "connections" ADD COLUMN "channel_named_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "connections" ADD COLUMN "ask_again_at" timestamp with time zone;