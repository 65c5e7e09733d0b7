package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/redis/go-redis/v9"
)

func goRedis(j job) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: j.redis, PoolSize: max(10, j.callers)})
}

// watermillPublish publishes from many goroutines, each waiting for its answer.
func watermillPublish(ctx context.Context, j job) (Result, error) {
	client := goRedis(j)
	defer client.Close()
	p, err := redisstream.NewPublisher(redisstream.PublisherConfig{Client: client}, watermill.NopLogger{})
	if err != nil {
		return Result{}, err
	}
	result, err := called(j.records, j.callers, func() error {
		return p.Publish(j.stream, message.NewMessage(watermill.NewUUID(), payload))
	})
	if err != nil {
		return result, err
	}
	if n, err := client.XLen(ctx, j.stream).Result(); err != nil || n != int64(result.Records) {
		return result, fmt.Errorf("the stream holds %d messages after %d were published: %w", n, result.Records, err)
	}
	return result, nil
}

// watermillConsume has one subscriber of a consumer group acknowledge all.
func watermillConsume(ctx context.Context, j job) (Result, error) {
	client := goRedis(j)
	defer client.Close()
	if err := fillWatermill(j, client); err != nil {
		return Result{}, err
	}
	if err := client.XGroupCreate(ctx, j.stream, "g", "0").Err(); err != nil {
		return Result{}, err
	}
	return timed(j.records, nil, func() error {
		sub, err := redisstream.NewSubscriber(redisstream.SubscriberConfig{
			Client: client, ConsumerGroup: "g", Consumer: "c",
		}, watermill.NopLogger{})
		if err != nil {
			return err
		}
		messages, err := sub.Subscribe(ctx, j.stream)
		if err != nil {
			return err
		}
		for range j.records {
			m, open := <-messages
			if !open {
				return errors.New("the subscription ended early")
			}
			m.Ack()
		}
		return sub.Close()
	})
}

// fillWatermill appends messages in the form that the subscriber expects, many
// at a time.
func fillWatermill(j job, client *redis.Client) error {
	values, err := redisstream.DefaultMarshallerUnmarshaller{}.Marshal(j.stream, message.NewMessage(watermill.NewUUID(), payload))
	if err != nil {
		return err
	}
	const step = 500
	for at := 0; at < j.records; at += step {
		pipe := client.Pipeline()
		for range min(step, j.records-at) {
			pipe.XAdd(context.Background(), &redis.XAddArgs{Stream: j.stream, Values: values})
		}
		if _, err := pipe.Exec(context.Background()); err != nil {
			return err
		}
	}
	return nil
}
